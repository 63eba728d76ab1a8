"""Reference aggregation: average the references, compare once (Vamvas & Sennrich 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk.groups import Groups
from minrisk.metric import AnyMetric
from minrisk.options import option
from minrisk.pool import bind
from minrisk.segment import Ranking, Segment
from minrisk.strategy import segment_rng


@dataclass(frozen=True)
class Aggregate:
    """every hypothesis against the average reference (Vamvas & Sennrich 2024)"""

    name: ClassVar[str] = "aggregate"
    metric: AnyMetric
    groups: int = option(1, help="how many averages; with more than one it is partial")
    contiguous: bool = option(False, help="neighbours together, not a random partition")
    seed: int = option(0, help="of the random choice")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [
            pool.ranking(pool.utility(self._split(pool.segment)))
            for pool in bind(self.metric, segments)
        ]

    def _split(self, segment: Segment) -> Groups:
        rng = None if self.contiguous else segment_rng(self.seed, segment)
        return Groups.split(segment.weights, self.groups, rng)
