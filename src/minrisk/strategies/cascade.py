"""Cascades of two stages: a cheap one selects the hypotheses that an exact one ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minrisk._core.adapters import as_metric, metric_option
from minrisk._core.arrays import Ints, numbered
from minrisk._core.batch import as_batch
from minrisk._core.errors import InputError, Wording
from minrisk._core.registry import STRATEGIES
from minrisk._core.strategy import (
    Budget,
    MeanUtility,
    Strategy,
    StrategyWrapper,
    leaves_self_out,
    stage_option,
)
from minrisk.plugins import Ability, AnyMetric, Options, Pool, Ranking, Segment, option
from minrisk.strategies.groups import Aggregate, Standard

KEEP = 20  # as in the paper


@dataclass(frozen=True)
class Cascade(Options):
    """Two strategies: the second one ranks the best `keep` hypotheses of the first.

    `keep` counts distinct texts; all copies of a text reach the second stage together. The pairs of
    both stages are counted.

    Args:
        coarse: the strategy of the first stage, or its name.
        fine: the strategy of the second stage, or its name.
        keep: number of distinct hypotheses in the second stage [default: 20, or all if fewer].
        metric: the metric of stages that are given by name; in the instance, the metric of the
            second stage.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> chrf = minrisk.ChrF()
    >>> cascade = minrisk.Cascade(minrisk.Aggregate(chrf), minrisk.Standard(chrf), keep=2)
    >>> minrisk.decode(samples, strategy=cascade).text
    'the cat sat'
    """

    name = "cascade"
    cost = "that of the first stage, and of the second for k hypotheses, k = keep"
    tried = Budget("keep", "hypotheses")
    coarse: Strategy = stage_option()
    fine: Strategy = stage_option("standard")
    keep: int | None = option(None, ge=1)
    # which does not affect results, because signatures have the metrics of the stages
    metric: AnyMetric = metric_option("chrf", affects_results=False)

    def __post_init__(self) -> None:
        for name in ("coarse", "fine"):
            stage: Any = getattr(self, name)
            if isinstance(stage, str):
                made = STRATEGIES.make(stage, metric=as_metric(self.metric))
                object.__setattr__(self, name, made)
        super().__post_init__()
        object.__setattr__(self, "metric", as_metric(self.fine.metric))

    @property
    def leave_self_out(self) -> bool:
        return leaves_self_out(self.fine)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        batch = as_batch(segments)
        first = self.coarse.rank(batch)
        kept = [best_rows(r, segment, self.keep) for r, segment in zip(first, batch, strict=True)]
        second = self.fine.rank(batch.keep(kept))
        return [r.refine(k, f) for r, k, f in zip(first, kept, second, strict=True)]


@dataclass(frozen=True)
class UncountedStage(StrategyWrapper):
    """A first stage with another metric, whose pairs are not counted."""


    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [replace(ranking, pairs=0) for ranking in self.strategy.rank(segments)]


def best_rows(ranking: Ranking, segment: Segment, keep: int | None) -> Ints:
    """The rows of the best `keep` distinct hypotheses (or all, if fewer), with all copies."""
    count = len(ranking.order)
    if keep is not None and not 1 <= keep <= count:
        raise InputError(Wording("keep={keep} of {count} hypotheses; choose from 1 to {count}",
                                 keep=keep, count=count))
    ranks = numbered((segment.hypotheses[row] for row in ranking.order.tolist()), {})
    kept = ranks < (KEEP if keep is None else keep)  # ranks among the distinct texts
    return np.sort(ranking.order[kept])  # sample order, which breaks ties of the next stage


def exact_among(kept: Sequence[Ints], rankings: Sequence[Ranking], pools: Iterable[Pool[Any]],
                leave_self_out: bool = False) -> list[Ranking]:
    """The rankings with these hypotheses first, by exact MBR; if the references are the samples,
    only these are used.
    """
    left = [pool.keep(rows) for pool, rows in zip(pools, kept, strict=True)]
    return [ranking.refine(rows, pool.ranking(
                pool.utility(own_references(pool.segment), leave_self_out)))
            for ranking, rows, pool in zip(rankings, kept, left, strict=True)]


def own_references(segment: Segment) -> Ints | None:
    """The columns of the hypotheses among the references, or None if references were given."""
    if segment.self_columns is None:
        return None
    copies = map(np.arange, segment.self_columns, segment.self_columns + segment.counts)
    return np.concatenate(list(copies))


@dataclass(frozen=True)
class AggregateToFine(MeanUtility, Options):
    """Exact MBR among the best `keep` hypotheses by aggregation.

    Args:
        metric: the metric that judges hypotheses, which must average references.
        keep: number of distinct hypotheses in the second stage [default: 20, or all if fewer].
        groups: number of averages of the first stage.
        contiguous: average neighbouring references instead of random ones.
        leave_self_out: skip the pair of a hypothesis with itself.
        seed: seed of the random partition.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.AggregateToFine("chrf", keep=2)).text
    'the cat sat'
    """

    name = "aggregate-to-fine"
    papers = ("Vamvas & Sennrich 2024",)
    cost = "n pairs, an average of m references, and k · m pairs, k = keep"
    tried = Budget("keep", "hypotheses")
    metric: AnyMetric = metric_option(needs=Ability.AVERAGES)
    keep: int | None = option(None, ge=1)
    groups: int = option(1, ge=1)
    contiguous: bool = option(False)
    leave_self_out: bool = option(False)
    seed: int = option(0, ge=0)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        coarse = Aggregate(self.metric, self.groups, self.contiguous, self.seed)
        fine = Standard(self.metric, self.leave_self_out)
        return Cascade(coarse, fine, self.keep).rank(segments)


@dataclass(frozen=True)
class CoarseToFine(MeanUtility, Options):
    """Exact MBR among the best `keep` hypotheses by a cheaper metric.

    Args:
        metric: the metric, its name or class, or a function.
        coarse: the cheaper metric of the first stage.
        keep: number of distinct hypotheses in the second stage [default: 20, or all if fewer].
        leave_self_out: skip the pair of a hypothesis with itself.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.CoarseToFine("bleu", "chrf", keep=2)).text
    'the cat sat'
    """

    name = "coarse-to-fine"
    papers = ("Eikema & Aziz 2022",)
    cost = "n · m pairs of the coarse metric, and k · m, k = keep"
    tried = Budget("keep", "hypotheses")
    metric: AnyMetric = metric_option()
    coarse: AnyMetric = metric_option()
    keep: int | None = option(None, ge=1)
    leave_self_out: bool = option(False)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        coarse = UncountedStage(Standard(self.coarse, self.leave_self_out))
        fine = Standard(self.metric, self.leave_self_out)
        return Cascade(coarse, fine, self.keep).rank(segments)
