"""BERTScore (Zhang et al. 2020): tokens of two texts matched greedily by their embeddings.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.options import option
from minrisk._core.weighted_rows import WeightedRows
from minrisk.metrics.neural import NeuralModel

if TYPE_CHECKING:
    from minrisk.metrics.bertscore.matcher import GreedyMatcher


@dataclass(frozen=True)
class BertScore(NeuralModel):
    """tokens matched greedily by their embeddings in any encoder; needs minrisk[neural]"""

    name: ClassVar[str] = "bertscore"
    model: str = option("google-bert/bert-base-multilingual-cased", help="a hub name or a folder")
    layer: int | None = option(None, help="whose states are compared; bert-score's, if it has one")
    part: Literal["f1", "precision", "recall"] = option("f1", help="what of the match counts")
    idf: str | None = option(None, help="weigh rare tokens more, by this file of one text a line, "
                                        "or by the distinct 'references' that are scored against")
    baseline: str | None = option(None, help="rescale by this file, in bert-score's format")

    def prepare(self) -> None:
        self._matcher  # noqa: B018 - which loads the model

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._matcher.encode(texts), np.arange(len(texts)))

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) BERTScore of every pair."""
        hyps.check(self)
        refs.check(self)
        return self._matcher.scores(*([side.base[row] for row in side.members]
                                      for side in (hyps, refs)))

    @cached_property
    def _matcher(self) -> GreedyMatcher:
        with needs_extra("BERTScore", "neural"):
            from minrisk.metrics.bertscore.matcher import GreedyMatcher
        return GreedyMatcher(self)
