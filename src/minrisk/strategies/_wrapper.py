"""Base classes of strategies that wrap another one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from minrisk._core.batch import as_batch
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy, leaves_self_out


class StrategyWrapper(Options):
    """A strategy with the name and the metric of its field `strategy`."""

    strategy: Strategy

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def metric(self) -> AnyMetric:
        return self.strategy.metric

    @property
    def leave_self_out(self) -> bool:
        return leaves_self_out(self.strategy)


class MeasuringStrategy(StrategyWrapper, ABC):
    """A wrapper that adds a measurement to each ranking of its field `strategy`."""

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        batch = as_batch(segments)
        rankings = self.strategy.rank(batch)
        return [self.measured(ranking, pool) for ranking, pool
                in zip(rankings, batch.pools(self.metric), strict=True)]

    @abstractmethod
    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        """The ranking with the measurement; `pairs` includes those of the measurement."""
