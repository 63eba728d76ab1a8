"""Base class of metrics with COMET's estimator, independent of encoder and backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Protocol

from minrisk._core.arrays import Floats, Points
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.metric import PartialStatistics, Surrogate
from minrisk.metrics._base import SourceMetric

Aggregation = Literal["expected", "mean"]
AGGREGATION = "average of references: of first-layer outputs, or (the paper's) of embeddings"


class PairScorer(Protocol):
    """COMET's estimator on embeddings."""

    def embeddings(self, vectors: Floats) -> Any:
        """The vectors in the backend's format, as features store them."""

    def vectors(self, features: WeightedRows) -> Points:
        """(N, D) embeddings of texts and aggregates, on their device."""

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats: ...

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats: ...

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics: ...

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows) -> Floats: ...

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows) -> Surrogate[WeightedRows]: ...


class EstimatorMetric(SourceMetric, ABC):
    """A metric whose estimator scores pairs of embeddings, including averaged references."""

    needs_source: ClassVar[bool] = True

    @property
    @abstractmethod
    def _scorer(self) -> PairScorer: ...

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) scores of all pairs."""
        return self._scorer.scores(hyps, refs, self._checked(source, hyps, refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        """(H,) `scores @ mass`, summed on the device."""
        return self._scorer.utility(hyps, refs, mass, self._checked(source, hyps, refs))

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        return self._scorer.partial_statistics(hyps, refs, weights)

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows | None = None) -> Floats:
        """(H,) scores against the average of the references that the statistics summarise."""
        return self._scorer.finalize(hyps, statistics, self._checked(source, hyps))

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows | None = None) -> Surrogate[WeightedRows]:
        """The estimator, linearised around the exact mean of its first layer's output."""
        return self._scorer.surrogate(hyps, refs, mass, self._checked(source, hyps, refs))
