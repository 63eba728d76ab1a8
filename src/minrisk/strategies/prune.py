"""Confidence-based pruning: more and more references for fewer and fewer hypotheses.

Cheng & Vlachos 2023, Faster Minimum Bayes Risk Decoding with Confidence-based Pruning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Ints
from minrisk._core.batch import bind
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Budget, MeanUtility, resampled, segment_rng, shuffled
from minrisk.strategies.race import Race


@dataclass(frozen=True)
class Prune(MeanUtility, Options):
    """drops hypotheses that rarely win as references double

    Costs n * start evaluations, then twice the references at each step for the remaining
    hypotheses; the total depends on the samples. The resamples are those of the Bayesian
    bootstrap. `alpha` is no bound for a run: every step may lose the best hypothesis, most of all
    the first ones, whose references are few (docs/guides/strategies.md has measured shares).

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        alpha: a hypothesis is dropped where more than this share of resamples have it behind the
            leader; 1 drops none.
        start: number of references of the first step.
        most: number of references of the last step; all unless given.
        resamples: number of resamples of the references.
        seed: seed of the random choices.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Prune("chrf", start=4)).text
    'the cat sat'
    """

    name: ClassVar[str] = "prune"
    papers: ClassVar[tuple[str, ...]] = ("Cheng & Vlachos 2023",)
    cost: ClassVar[str] = "n · start pairs, then fewer in each step"
    tried: ClassVar[Budget] = Budget("alpha", values=(0.8, 0.9, 0.99))
    metric: AnyMetric = metric_option()
    alpha: float = option(0.99, ge=0, le=1,
                          help="share of resamples, at each step, by which a hypothesis must be "
                          "behind the leader to be dropped; 1 drops none")
    start: int = option(16, ge=1, help="number of references of the first step")
    most: int | None = option(None, ge=1,
                              help="number of references of the last step; all unless given")
    resamples: int = option(500, ge=1,
                           help="number of resamples of the references, to count wins")
    seed: int = option(0, ge=0, help="seed of the random choices")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, pool: Pool[Any]) -> Ranking:
        rng = segment_rng(self.seed, pool.segment)
        race = Race(pool, shuffled(pool.segment, rng))
        first, *later = self._sizes(len(pool.ref_rows))
        race.meet(first)
        for size in later:
            race.keep(self._contenders(race, rng))
            if race.left == 1:
                break
            race.meet(size)
        return race.ranking()

    def _sizes(self, count: int) -> list[int]:
        """The number of references of each step, which doubles."""
        last = count if self.most is None else self.most
        if not 1 <= last <= count:
            raise InputError(Wording("prune: most={last} of {count} references; choose from 1 to "
                                     "{count}", last=last, count=count))
        sizes = []
        size = self.start
        while size < last:
            sizes.append(size)
            size *= 2
        return [*sizes, last]

    def _contenders(self, race: Race, rng: np.random.Generator) -> Ints:
        """Hypotheses that are as good as the best in enough resamples of the references."""
        mass = resampled(race.weights, self.resamples, rng)
        utilities = race.scores.astype(mass.dtype) @ mass.T  # (left, resamples)
        wins = np.mean(utilities >= utilities[np.argmax(race.utility)], axis=1)
        return np.flatnonzero(wins >= 1 - self.alpha)
