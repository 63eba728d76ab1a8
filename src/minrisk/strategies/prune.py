"""Confidence-based pruning: more and more references for fewer and fewer hypotheses.

Cheng & Vlachos 2023, Faster Minimum Bayes Risk Decoding with Confidence-based Pruning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.arrays import Ints
from minrisk.errors import InputError
from minrisk.metric import AnyMetric
from minrisk.options import option
from minrisk.pool import Pool, bind
from minrisk.segment import Ranking, Segment
from minrisk.strategies.race import Race
from minrisk.strategy import resampled, segment_rng, shuffled


@dataclass(frozen=True)
class Prune:
    """drops who is hardly ever the best as references double (Cheng & Vlachos 2023)

    Costs n * start evaluations, then twice the references at each step for those who are left: by
    how much fewer than n * m depends on the samples. The resamples are of the Bayesian bootstrap.
    """

    name: ClassVar[str] = "prune"
    metric: AnyMetric
    alpha: float = option(0.99, help="how sure it must be that who is dropped is not the best")
    start: int = option(16, help="references of the first step")
    most: int | None = option(None, help="references of the last step; all unless given")
    resamples: int = option(500, help="of the references, to know how often a hypothesis wins")
    seed: int = option(0, help="of the random choices")

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha {self.alpha}; a number from 0 to 1 is wanted")
        if self.start < 1 or self.resamples < 1:
            raise InputError(f"start {self.start} and resamples {self.resamples}; "
                             "positive numbers are wanted")

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
        """How many references each step has: twice as many each time."""
        last = count if self.most is None else self.most
        if not 1 <= last <= count:
            raise InputError(f"pruning with {last} of {count} references; "
                             f"choose from 1 to {count}")
        sizes = []
        size = self.start
        while size < last:
            sizes.append(size)
            size *= 2
        return [*sizes, last]

    def _contenders(self, race: Race, rng: np.random.Generator) -> Ints:
        """Who is at least as good as the best in enough resamples of the references."""
        mass = resampled(race.weights, self.resamples, rng)
        drawn = race.scores.astype(mass.dtype) @ mass.T  # (left, resamples)
        wins = np.mean(drawn >= drawn[np.argmax(race.utility)], axis=1)
        return np.flatnonzero(wins >= 1 - self.alpha)
