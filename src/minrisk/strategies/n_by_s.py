"""N-by-S MBR: every hypothesis against a subset of the references (Eikema & Aziz 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Ints
from minrisk._core.batch import bind
from minrisk._core.errors import InputError, Wording
from minrisk._core.groups import Groups
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import SELF_HELP, Budget, MeanUtility, segment_rng, shuffled


@dataclass(frozen=True)
class NByS(MeanUtility, Options):
    """every hypothesis against `subset` of the references

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        subset: number of references.
        first: take the first references, not random ones.
        leave_self_out: skip the pair of a hypothesis with itself.
        seed: seed of the random choice.

    Raises:
        InputError: when it ranks, if a segment has fewer references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.NByS("chrf", subset=3)).text
    'the cat sat'
    """

    name: ClassVar[str] = "n-by-s"
    papers: ClassVar[tuple[str, ...]] = ("Eikema & Aziz 2022",)
    cost: ClassVar[str] = "n · s pairs, s = subset"
    tried: ClassVar[Budget] = Budget("subset", "references")
    metric: AnyMetric = metric_option()
    subset: int = option(ge=1, help="number of references")
    first: bool = option(False, help="use the first references, as in the paper's scripts, "
                                     "not random ones")
    leave_self_out: bool = option(False, help=SELF_HELP)
    seed: int = option(0, ge=0, help="seed of the random choice")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [pool.ranking(self._utility(pool)) for pool in bind(self.metric, segments)]

    def _utility(self, pool: Pool[Any]) -> Any:
        groups = Groups.subset(pool.segment.weights, self._rows(pool.segment))
        return pool.utility(groups, self.leave_self_out)

    def _rows(self, segment: Segment) -> Ints:
        count = len(segment.references)
        if not 1 <= self.subset <= count:
            raise InputError(Wording("n-by-s: subset={subset} of {count} references; choose from 1 "
                                     "to {count}", subset=self.subset, count=count))
        rng = None if self.first else segment_rng(self.seed, segment)
        return shuffled(segment, rng)[: self.subset]
