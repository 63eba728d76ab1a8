"""Standard MBR: every hypothesis against every reference, exactly (Eikema & Aziz 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats
from minrisk._core.batch import bind
from minrisk._core.metric import AnyMetric, F, PartialStatistics
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import SELF_HELP, MeanUtility


@dataclass(frozen=True)
class Standard(MeanUtility, Options):
    """exact: every hypothesis against every reference

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        leave_self_out: skip the pair of a hypothesis with itself.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Standard("chrf")).text
    'the cat sat'
    """

    name: ClassVar[str] = "standard"
    papers: ClassVar[tuple[str, ...]] = ("Eikema & Aziz 2020",)
    cost: ClassVar[str] = "n · m pairs"
    metric: AnyMetric = metric_option()
    leave_self_out: bool = option(False, help=SELF_HELP)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [
            pool.ranking(pool.utility(leave_self_out=self.leave_self_out))
            for pool in bind(self.metric, segments)
        ]

    def partial_statistics(self, pool: Pool[F], refs: F, weights: Floats) -> PartialStatistics:
        """Weighted sums of scores, which add up to utilities."""
        return pool.summed_scores(refs, weights)

    def finalize(self, pool: Pool[F], statistics: PartialStatistics) -> Floats:
        return statistics
