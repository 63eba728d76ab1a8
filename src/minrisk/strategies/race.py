"""A race of hypotheses: scored against more and more references while the worst are dropped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking


class Race:
    """The state of a race: the remaining hypotheses and their scores against the same references.

    Equal hypotheses are scored as one.
    """

    def __init__(self, pool: Pool[Any], references: Ints) -> None:
        self._pool, self._place = pool.distinct_hypotheses()
        self._references = references  # (R,) in the order in which they are used
        _, first, text = np.unique(pool.ref_rows[references], return_index=True,
                                   return_inverse=True)
        self._first = first[text]  # (R,) the first position of the same text
        self._left = np.arange(len(self._pool.hyp_rows))
        self._dropped: list[Ints] = []  # best first, those dropped last before the others
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
        """Score the remaining hypotheses against the references up to this number."""
        known = np.empty((self.left, until))
        known[:, : self.met] = self.scores
        first = self._first[self.met : until]
        new = np.unique(first[first >= self.met])
        if new.size:
            known[:, new] = self._scores(self._references[new])
        known[:, self.met :] = known[:, first]  # equal references are scored once
        self.scores = known

    def keep(self, rows: Ints) -> None:
        """Drop the other hypotheses; rows are those of the remaining ones."""
        order = Ranking.of(self.utility).order
        self._dropped.insert(0, self._left[order[~np.isin(order, rows)]])
        self._left, self.scores = self._left[rows], self.scores[rows]

    def keep_best(self, count: int) -> None:
        self.keep(Ranking.of(self.utility).order[:count])

    def halve(self, budget: int) -> None:
        """Sequential halving: drop the worse half until one is left, with equal pairs per step.

        Every step adds at least one reference; if the budget allows it, all are used.
        """
        count = self._references.size
        for steps in range(steps_of(self.left), 0, -1):
            until = min(count, self.met + max(1, budget // (steps * self.left)))
            if budget >= self.left * (count - self.met):
                until = count  # nothing better to spend the rest on
            budget -= self.left * (until - self.met)
            self.meet(until)
            if until == count:
                break
            self.keep_best(math.ceil(self.left / 2))

    def ranking(self) -> Ranking:
        """The ranking by the step in which a hypothesis was dropped, the remaining ones first.

        Only the remaining hypotheses have utilities.
        """
        last = Ranking.of(self.utility)
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
