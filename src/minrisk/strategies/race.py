"""Hypotheses that meet more and more references, while those who fall behind drop out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minrisk.arrays import Floats, Ints
from minrisk.pool import Pool
from minrisk.segment import Ranking


class Race:
    """Equal hypotheses run as one; whoever is left has met the same references."""

    def __init__(self, pool: Pool[Any], references: Ints) -> None:
        self._pool, self._place = pool.once()
        self._references = references  # (R,) in the order of meeting them
        self._left = np.arange(len(self._pool.hyp_rows))
        self._ranking = Ranking.of(np.zeros(self._left.size))
        self.scores: Floats = np.empty((self._left.size, 0))  # (left, met)

    @property
    def left(self) -> int:
        return len(self.scores)

    @property
    def met(self) -> int:
        return int(self.scores.shape[1])

    @property
    def weights(self) -> Floats:
        """(met,) of the references, adding up to 1."""
        weights = self._pool.segment.weights[self._references[: self.met]]
        normalised: Floats = weights / weights.sum()
        return normalised

    @property
    def utility(self) -> Floats:  # (left,)
        return self.scores @ self.weights

    def meet(self, until: int) -> None:
        """The references up to this number."""
        texts = self._pool.ref_rows[self._references[:until]]
        _, first, text = np.unique(texts, return_index=True, return_inverse=True)
        known = np.empty((self.left, until))
        known[:, :self.met] = self.scores
        new = first[first >= self.met]
        if new.size:
            known[:, new] = self._pool.keep(self._left).scores(self._references[new])
        self.scores = known[:, first[text]]  # who comes again is scored already
        self._ranking = self._ranking.refine(self._left, Ranking.of(self.utility))

    def keep(self, rows: Ints) -> None:
        """Only these of those who are left go on."""
        self._left, self.scores = self._left[rows], self.scores[rows]

    def ranking(self) -> Ranking:
        """Who came furthest is first; utilities are of those who met the last references."""
        return replace(self._ranking, pairs=self._pool.tally.pairs).repeat(self._place)
