"""Reference aggregation: average the references, compare once (Vamvas & Sennrich 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats
from minrisk._core.batch import bind
from minrisk._core.errors import InputError, Wording
from minrisk._core.groups import Groups
from minrisk._core.metric import Ability, AnyMetric, F, PartialStatistics
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Budget, MeanUtility, segment_rng

GROUPS_HELP = "number of averages; with more than one, aggregation is partial"
CONTIGUOUS_HELP = "average neighbouring references, not a random partition"


@dataclass(frozen=True)
class Aggregate(MeanUtility, Options):
    """every hypothesis against the average reference

    Args:
        metric: the metric that judges hypotheses, which must average references.
        groups: number of averages; with more than one, aggregation is partial.
        contiguous: average neighbouring references, not random ones.
        seed: seed of the random partition.

    Raises:
        InputError: if the metric cannot average references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Aggregate("chrf")).text
    'the cat sat'
    """

    name: ClassVar[str] = "aggregate"
    papers: ClassVar[tuple[str, ...]] = ("Vamvas & Sennrich 2024", "DeNero et al. 2009")
    cost: ClassVar[str] = "n pairs, and an average of m references; n · s with s groups"
    tried: ClassVar[Budget] = Budget("groups", "references")
    metric: AnyMetric = metric_option(needs=Ability.AVERAGES)
    groups: int = option(1, ge=1, help=GROUPS_HELP)
    contiguous: bool = option(False, help=CONTIGUOUS_HELP)
    seed: int = option(0, ge=0, help="seed of the random partition")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [
            pool.ranking(pool.utility(self._split(pool.segment)))
            for pool in bind(self.metric, segments)
        ]

    def partial_statistics(self, pool: Pool[F], refs: F, weights: Floats) -> PartialStatistics:
        if self.groups != 1:
            raise InputError(Wording("references that come in parts have one average; expected "
                                     "groups=1, got groups={groups}", groups=self.groups))
        return pool.partial_statistics(refs, weights)

    def finalize(self, pool: Pool[F], statistics: PartialStatistics) -> Floats:
        return pool.finalize(statistics)

    def _split(self, segment: Segment) -> Groups:
        rng = None if self.contiguous else segment_rng(self.seed, segment)
        return Groups.split(segment.weights, self.groups, rng)
