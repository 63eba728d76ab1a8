"""Control variates: a surrogate whose mean is known exactly, corrected with a few real pairs.

Our own: the mean score over all references is that of a surrogate, plus the mean of what the
surrogate misses, and the second is small enough to be estimated from few references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.arrays import Floats, Ints, sums
from minrisk.errors import InputError
from minrisk.kmeans import kmeans, nearest_members
from minrisk.metric import AnyMetric
from minrisk.options import option
from minrisk.pool import Pool, bind
from minrisk.segment import Ranking, Segment
from minrisk.strategies.drawing import chances, drawn
from minrisk.strategy import segment_rng

_ITERATIONS = 10  # of k-means


@dataclass(frozen=True)
class ControlVariate:
    """a linear surrogate of the metric, corrected with `subset` references (ours)

    Random references are unbiased: over all choices of them the mean is the exact utility. Costs
    n * (1 + s) evaluations, where the surrogate's mean counts as one.
    """

    name: ClassVar[str] = "control-variate"
    metric: AnyMetric
    subset: int = option(16, help="how many references correct the surrogate, at most; 0 is none")
    exemplars: bool = option(False, help="references in the middle of clusters, not random ones: "
                             "sometimes closer, but biased")
    seed: int = option(0, help="of the choice of references")

    def __post_init__(self) -> None:
        if self.subset < 0:
            raise InputError(f"a subset of {self.subset} references; a number from 0 on is wanted")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, whole: Pool[Any]) -> Ranking:
        pool, place = whole.once()
        rng = segment_rng(self.seed, pool.segment)
        columns, mass = pool.references_once()
        if self.exemplars and self.subset:
            chosen, weights = _exemplars(pool.vectors()[columns], mass, self.subset, rng)
        else:
            chosen, weights = _random(mass, self.subset, rng)
        utility, surrogate = pool.surrogate(columns, mass, columns[chosen])
        if chosen.size:
            missed = pool.scores(columns[chosen]) - surrogate  # (H, s)
            utility = utility + missed @ weights
        return pool.ranking(utility).repeat(place)


def _random(mass: Floats, size: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Which references correct, and how much each counts."""
    chance = chances(mass, size)
    chosen = drawn(chance, rng.permutation(mass.size), rng.random())
    return chosen, mass[chosen] / chance[chosen]


def _exemplars(points: Floats, mass: Floats, size: int,
               rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Of each cluster the member nearest to its centroid, which counts as much as all of them."""
    labels = kmeans(points, mass, size, _ITERATIONS, rng)
    return nearest_members(points, mass, labels), sums(labels, mass, labels.max() + 1)
