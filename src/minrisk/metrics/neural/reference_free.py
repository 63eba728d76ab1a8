"""The base class of metrics that judge a hypothesis by its source alone, in every strategy.

This file needs no torch, so that such metrics can be listed where their extras are not installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.metric import PartialStatistics
from minrisk.metrics._base import SourceMetric


class ReferenceFree(SourceMetric, ABC):
    """A metric whose scores do not depend on references, nor on averages of them.

    It has no fields: those of a dataclass would hide what the model beside it declares anew.
    """

    ignores_references: ClassVar[bool] = True
    needs_source: ClassVar[bool] = True

    @abstractmethod
    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        """(H,) the model's score of each hypothesis with its source."""

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the quality of each hypothesis, whatever the reference."""
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
        return np.zeros(0)  # references do not matter

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows | None = None) -> Floats:
        return self.quality(hyps, self._checked(source, hyps))
