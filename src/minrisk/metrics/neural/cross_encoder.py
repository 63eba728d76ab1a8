"""The base class of cross-encoders, whose model reads hypothesis and reference together.

This file needs no torch, so that such metrics can be listed where their extras are not installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.groups import WeightedRows, check_rows
from minrisk.metrics.neural import NeuralModel


class CrossEncoderScorer(Protocol):
    """A loaded model that scores all pairs of texts."""

    def scores(self, hyps: Sequence[str], refs: Sequence[str], source: str) -> Floats: ...


@dataclass(frozen=True)
class CrossEncoder(NeuralModel, ABC):
    """A metric whose model reads every pair; its features are the texts."""

    @property
    def needs_source(self) -> bool:
        return False

    def prepare(self) -> None:
        self._scorer  # noqa: B018 - which loads the model

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, list(texts), np.arange(len(texts)))

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the score of every pair."""
        (text,) = self._texts(self._checked(source)) if self.needs_source else ("",)
        return self._scorer.scores(self._texts(hyps), self._texts(refs), text)

    @property
    @abstractmethod
    def _scorer(self) -> CrossEncoderScorer: ...

    def _texts(self, features: WeightedRows) -> list[Any]:
        check_rows(self, features)
        return [features.base[row] for row in features.members]
