"""Control variates: a surrogate ranks all hypotheses, real pairs correct it where it matters.

Our own: the mean score over all references is that of a surrogate, which is known exactly, plus the
mean of what the surrogate misses, which few references tell better than they tell the score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats, Ints
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool, Tally
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Budget, MeanUtility, segment_rng, shuffled
from minrisk.strategies.race import Race, steps_of

# per step: with fewer, their sampling noise exceeds the error of the surrogate
_MIN_REFERENCES = 8


@dataclass(frozen=True)
class ControlVariate(MeanUtility, Options):
    """as adaptive, with a linear surrogate of the metric as control variate (ours)

    Like `adaptive`, but hypotheses with a low mean of the surrogate are dropped before any pair is
    evaluated, and the scores only correct the error of the surrogate. Costs n evaluations for the
    mean of the surrogate, and at most `budget` * n * m.

    Args:
        metric: the metric that judges hypotheses, which must have a surrogate.
        budget: share of all pairs that may be evaluated.
        seed: seed of the order of references.

    Raises:
        InputError: if the metric has no surrogate.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.ControlVariate("mqm", budget=0.1).budget
    0.1
    """

    name: ClassVar[str] = "control-variate"
    cost: ClassVar[str] = "n means of the surrogate, and budget · n · m pairs"
    tried: ClassVar[Budget] = Budget("budget", "pairs")
    metric: AnyMetric = metric_option(needs=Ability.SURROGATE)
    budget: float = option(1 / 32, gt=0, le=1, help="share of all pairs that may be evaluated")
    seed: int = option(0, ge=0, help="seed of the order of references")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, whole: Pool[Any]) -> Ranking:
        pool, inverse = whole.distinct_hypotheses()
        segment = pool.segment
        first = pool.ranking(pool.surrogate_mean())
        count, references = len(first.order), len(segment.references)
        budget = int(self.budget * count * references)
        kept = np.sort(first.order[: _affordable(count, references, budget)])
        if budget < kept.size:
            return first.repeat(inverse)
        race = CorrectedRace(replace(pool.keep(kept), tally=Tally()), first.utility[kept],
                         shuffled(segment, segment_rng(self.seed, segment)))
        race.halve(budget)
        return first.refine(kept, race.ranking()).repeat(inverse)


class CorrectedRace(Race):
    """A race by the mean of the surrogate plus the mean error of it on the references used.

    While no hypothesis has been dropped and all weights are equal, this estimate is unbiased: its
    expectation over all choices of references is the exact utility.
    """

    def __init__(self, pool: Pool[Any], mean: Floats, references: Ints) -> None:
        super().__init__(pool, references)
        self._mean = mean  # (H,)
        self._values = pool.surrogate_values()  # (H, R)

    @property
    def utility(self) -> Floats:  # (left,)
        return self._mean[self._left] + super().utility

    def _scores(self, columns: Ints) -> Floats:
        return super()._scores(columns) - self._values[np.ix_(self._left, columns)]


def _affordable(count: int, references: int, budget: int) -> int:
    """The number of hypotheses for which every halving step can have enough references."""
    while count > 1 and budget < count * min(_MIN_REFERENCES * steps_of(count), references):
        count = math.ceil(count / 2)
    return count
