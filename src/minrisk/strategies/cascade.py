"""Two stages: a cheap one chooses which hypotheses an exact one looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from minrisk.arrays import Ints
from minrisk.errors import InputError
from minrisk.metric import AnyMetric
from minrisk.options import option
from minrisk.pool import Batch
from minrisk.segment import Ranking, Segment
from minrisk.strategies.aggregate import Aggregate
from minrisk.strategies.standard import Standard
from minrisk.strategy import Strategy

KEEP = 20  # as in the paper
KEEP_HELP = "how many hypotheses reach the second stage; 20, or all if fewer"


@dataclass(frozen=True)
class Cascade:
    """The best `keep` of a coarse strategy, ranked again by a fine one."""

    name: ClassVar[str] = "cascade"
    coarse: Strategy
    fine: Strategy
    keep: int | None = None  # 20, or all if there are fewer

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        # both stages find the same features if they share a metric
        batch = segments if isinstance(segments, Batch) else Batch(segments)
        first = self.coarse.rank(batch)
        kept = [head(ranking, self.keep) for ranking in first]
        second = self.fine.rank(batch.keep(kept))
        return [r.refine(k, f) for r, k, f in zip(first, kept, second, strict=True)]


@dataclass(frozen=True)
class Cheap:
    """A first stage by another metric, whose pairs do not count beside those of the metric."""

    strategy: Strategy

    @property
    def name(self) -> str:
        return self.strategy.name

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [replace(ranking, pairs=0) for ranking in self.strategy.rank(segments)]


def head(ranking: Ranking, keep: int | None) -> Ints:
    """The best so many; 20, or all if there are fewer."""
    count = len(ranking.order)
    keep = min(KEEP, count) if keep is None else keep
    if not 1 <= keep <= count:
        raise InputError(f"keep {keep} of {count} hypotheses; choose from 1 to {count}")
    return ranking.order[:keep]


@dataclass(frozen=True)
class AggregateToFine:
    """the best `keep` by aggregation, then exact (Vamvas & Sennrich 2024)"""

    name: ClassVar[str] = "aggregate-to-fine"
    metric: AnyMetric
    keep: int | None = option(None, help=KEEP_HELP)
    groups: int = option(1, help="how many averages; with more than one it is partial")
    contiguous: bool = option(False, help="neighbours together, not a random partition")
    leave_self_out: bool = option(False, help="skip the pair of a hypothesis with itself")
    seed: int = option(0, help="of the random choice")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        coarse = Aggregate(self.metric, self.groups, self.contiguous, self.seed)
        fine = Standard(self.metric, self.leave_self_out)
        return Cascade(coarse, fine, self.keep).rank(segments)


@dataclass(frozen=True)
class CoarseToFine:
    """the best `keep` by a cheaper metric, then exact (Eikema & Aziz 2022)"""

    name: ClassVar[str] = "coarse-to-fine"
    metric: AnyMetric
    coarse: AnyMetric = option(help="the cheaper metric")
    keep: int | None = option(None, help=KEEP_HELP)
    leave_self_out: bool = option(False, help="skip the pair of a hypothesis with itself")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        coarse = Cheap(Standard(self.coarse, self.leave_self_out))
        fine = Standard(self.metric, self.leave_self_out)
        return Cascade(coarse, fine, self.keep).rank(segments)
