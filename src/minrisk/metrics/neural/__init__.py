"""Base classes of metrics with a neural network.

This module does not import torch, so that such metrics can be listed where it is not installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, WeightedRows, check_rows
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.options import option

Dtype = Literal["auto", "fp32", "tf32", "bf16", "fp16"]


class SourceMetric(Metric[WeightedRows]):
    """A metric whose scores depend on the source, always or with certain options."""

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, after checks that it is given and that this metric made all features."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        check_rows(self, source, *others)
        return source


@dataclass(frozen=True)
class NeuralModel(SourceMetric):
    """A metric with a model: its name, number format, device and batch size."""

    loads_model = True

    model: str = option()
    dtype: Dtype = option("auto")
    device: str = option("auto")
    tokens: int | None = option(None, ge=1)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only the options; the receiving process loads the model."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


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
        return WeightedRows.plain(self, list(texts))

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
        return features.listed()


class ReferenceFree(SourceMetric, ABC):
    """A metric whose scores do not depend on references.

    It is not a dataclass: inherited fields would override those of the model class beside it.
    """

    ignores_references = True
    needs_source = True

    @abstractmethod
    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        """(H,) the model's score of each hypothesis with its source."""

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the quality of each hypothesis, for every reference."""
        quality = self.quality(hyps, self._checked(source, hyps, refs))
        return np.tile(quality[:, None], len(refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        quality: Floats = self.quality(hyps, self._checked(source, hyps, refs)) * mass.sum()
        return quality

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        return np.zeros(0)  # scores do not depend on references

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows | None = None) -> Floats:
        return self.quality(hyps, self._checked(source, hyps))
