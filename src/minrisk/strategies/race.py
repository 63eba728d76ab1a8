"""Races: hypotheses are scored against more and more references while the worst are dropped.

Confidence-based pruning (Cheng & Vlachos 2023, Faster Minimum Bayes Risk Decoding with
Confidence-based Pruning); correlated sequential halving (Jinnai & Ariu 2024, Hyperparameter-Free
Approach for Faster Minimum Bayes Risk Decoding; the halving is that of Baharav & Tse 2019); and
control variates (ours): the mean score over all references is the mean of a surrogate, which is
known exactly, plus the mean of the residual, whose variance is lower, so that a few references
suffice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints
from minrisk._core.errors import InputError, Wording
from minrisk._core.pool import Pool, Tally
from minrisk._core.strategy import (
    Budget,
    MeanUtility,
    PoolStrategy,
    resampled,
    segment_rng,
    shuffled,
)
from minrisk.plugins import Ability, AnyMetric, Ranking, metric_option, option


class Race:
    """The state of a race: the remaining hypotheses and their scores against the same references.

    Equal hypotheses are scored once.
    """

    def __init__(self, pool: Pool[Any], references: Ints) -> None:
        self._pool, self._place = pool.distinct_hypotheses()
        self._references = references  # (R,) columns, in the order of use
        texts = Distinct.from_labels(pool.ref_rows[references], len(pool.texts))
        self._first = texts.first[texts.inverse]  # (R,) the first position of the same text
        self._left = np.arange(len(self._pool.hyp_rows))
        self._dropped: list[Ints] = []  # most recently dropped first, each array best first
        self.scores: Floats = np.empty((self._left.size, 0))  # (left, met)

    @property
    def left(self) -> int:
        return len(self.scores)

    @property
    def met(self) -> int:
        return int(self.scores.shape[1])

    @property
    def weights(self) -> Floats:
        """(met,) weights of the references used so far, normalised to 1."""
        weights = self._pool.segment.weights[self._references[: self.met]]
        normalised: Floats = weights / weights.sum()
        return normalised

    @property
    def utility(self) -> Floats:  # (left,)
        return self.scores @ self.weights

    def meet(self, until: int) -> None:
        """Score the remaining hypotheses against the first `until` references."""
        known = np.empty((self.left, until))
        known[:, : self.met] = self.scores
        first = self._first[self.met : until]
        new = np.unique(first[first >= self.met])
        if new.size:
            known[:, new] = self._scores(self._references[new])
        known[:, self.met :] = known[:, first]  # equal references are scored once
        self.scores = known

    def keep(self, rows: Ints) -> None:
        """Drop all but these rows of the remaining hypotheses."""
        order = Ranking.from_utility(self.utility).order
        self._dropped.insert(0, self._left[order[~np.isin(order, rows)]])
        self._left, self.scores = self._left[rows], self.scores[rows]

    def keep_best(self, count: int) -> None:
        self.keep(Ranking.from_utility(self.utility).order[:count])

    def halve(self, budget: int) -> None:
        """Sequential halving: drop the worse half until one is left, with equally many pairs per
        step.

        Every step adds at least one reference; all are used as soon as the budget allows it.
        """
        count = self._references.size
        for steps in range(steps_of(self.left), 0, -1):
            until = min(count, self.met + max(1, budget // (steps * self.left)))
            if budget >= self.left * (count - self.met):
                until = count  # the rest of the budget suffices for exact utilities
            budget -= self.left * (until - self.met)
            self.meet(until)
            if until == count:
                break
            self.keep_best(math.ceil(self.left / 2))

    def ranking(self) -> Ranking:
        """The remaining hypotheses, then the dropped ones, the most recently dropped first.

        Only the remaining hypotheses have utilities.
        """
        last = Ranking.from_utility(self.utility)
        utility = np.full(len(self._pool.hyp_rows), np.nan)
        utility[self._left] = last.utility
        order = np.concatenate([self._left[last.order], *self._dropped])
        return Ranking(order, utility, self._pool.tally.pairs).repeat(self._place)

    def _scores(self, columns: Ints) -> Floats:
        """(left, columns) scores against these references."""
        return self._pool.keep(self._left).scores(columns)


def steps_of(count: int) -> int:
    """The number of halvings until one hypothesis is left; at least one."""
    return max(1, math.ceil(math.log2(count)))


@dataclass(frozen=True)
class Prune(MeanUtility, PoolStrategy):
    """Drops hypotheses that rarely win, while the number of references doubles.

    Costs n * start evaluations; each further step doubles the references of the remaining
    hypotheses, so the total depends on the samples. Resampling is the Bayesian bootstrap. `alpha`
    does not bound the error of a whole run: every step may drop the best hypothesis, most likely
    the first steps, with few references (docs/guides/strategies.md has measured rates).

    Args:
        metric: the metric, its name or class, or a function.
        alpha: share of resamples in which a hypothesis must trail the leader to be dropped; 1 drops
            none.
        start: number of references in the first step.
        most: number of references in the last step [default: all].
        resamples: number of resamples of the references.
        seed: seed of the random choices.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Prune("chrf", start=4)).text
    'the cat sat'
    """

    name = "prune"
    papers = ("Cheng & Vlachos 2023",)
    cost = "n · start pairs, then fewer in each step"
    tried = Budget("alpha", values=(0.8, 0.9, 0.99))
    alpha: float = option(0.99, ge=0, le=1)
    start: int = option(16, ge=1)
    most: int | None = option(None, ge=1)
    resamples: int = option(500, ge=1)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
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
        """Hypotheses that are at least as good as the leader in enough resamples."""
        mass = resampled(race.weights, self.resamples, rng)
        utilities = race.scores.astype(mass.dtype) @ mass.T  # (left, resamples)
        wins = np.mean(utilities >= utilities[np.argmax(race.utility)], axis=1)
        return np.flatnonzero(wins >= 1 - self.alpha)


@dataclass(frozen=True)
class Adaptive(MeanUtility, PoolStrategy):
    """Keeps the better half of the hypotheses at each step, with more references each time.

    All hypotheses of a step are scored against the same references (hence "correlated") and keep
    the scores of earlier steps. Costs `budget` * n * m evaluations, or fewer if texts are equal,
    but at least about 2 * n, because every step adds at least one reference.

    Args:
        metric: the metric, its name or class, or a function.
        budget: maximum share of all pairs to evaluate.
        seed: seed of the order of references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Adaptive("chrf", budget=1)).text
    'the cat sat'
    """

    name = "adaptive"
    papers = ("Jinnai & Ariu 2024",)
    cost = "budget · n · m pairs, or about 2 · n if that is more"
    tried = Budget("budget", "pairs")
    budget: float = option(0.125, gt=0, le=1)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        segment = pool.segment
        race = Race(pool, shuffled(segment, segment_rng(self.seed, segment)))
        race.halve(int(self.budget * race.left * len(segment.references)))
        return race.ranking()


# references per step; with fewer, sampling noise exceeds the error of the surrogate
_MIN_REFERENCES = 8


@dataclass(frozen=True)
class ControlVariate(MeanUtility, PoolStrategy):
    """Like adaptive, with a linear surrogate of the metric as control variate (ours).

    Like `adaptive`, but hypotheses with a low mean of the surrogate are dropped before any pair is
    evaluated, and the scores only correct the error of the surrogate. Costs n evaluations for the
    mean of the surrogate, and at most `budget` * n * m.

    Args:
        metric: the metric that judges hypotheses, which must have a surrogate.
        budget: maximum share of all pairs to evaluate.
        seed: seed of the order of references.

    Raises:
        InputError: if the metric has no surrogate.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.ControlVariate("mqm", budget=0.1).budget
    0.1
    """

    name = "control-variate"
    cost = "n means of the surrogate, and budget · n · m pairs"
    tried = Budget("budget", "pairs")
    metric: AnyMetric = metric_option(needs=Ability.SURROGATE)
    budget: float = option(1 / 32, gt=0, le=1)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        pool, inverse = pool.distinct_hypotheses()
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
    """A race by the mean of the surrogate plus its mean error on the references used so far.

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
    """The number of hypotheses for which the budget allows enough references in every step."""
    while count > 1 and budget < count * min(_MIN_REFERENCES * steps_of(count), references):
        count = math.ceil(count / 2)
    return count
