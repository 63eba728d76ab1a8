"""Which references are averaged together, and how much each group counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minrisk._core.arrays import Floats, Ints, sums
from minrisk._core.errors import InputError
from minrisk._core.lazy import lazy


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of weighted references; a label of -1 leaves a reference out.

    >>> groups = Groups(np.array([0, 0, 1, -1]), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> groups.mass.tolist(), groups.share.round(2).tolist()
    ([0.5, 0.5], [0.33, 0.67, 1.0, 0.0])
    """

    labels: Ints  # (R,)
    weights: Floats  # (R,)

    @classmethod
    def singletons(cls, weights: Floats) -> Groups:
        return cls(np.arange(weights.size), weights)

    @classmethod
    def subset(cls, weights: Floats, rows: Ints) -> Groups:
        """One group for each of these references, and none for the others."""
        labels = np.full(weights.size, -1, dtype=np.intp)
        labels[rows] = np.arange(rows.size)
        return cls(labels, weights)

    @classmethod
    def split(
        cls, weights: Floats, groups: int, rng: np.random.Generator | None = None
    ) -> Groups:
        """Groups of nearly equal size: contiguous, or at random if a generator is given."""
        if not 1 <= groups <= weights.size:
            raise InputError(f"{groups} groups of {weights.size} references; "
                             f"choose from 1 to {weights.size}")
        # spreads the remainder: sizes differ by at most one and nothing is dropped
        labels = np.arange(weights.size) * groups // weights.size
        return cls(labels if rng is None else rng.permutation(labels), weights)

    def __len__(self) -> int:
        return int(self.labels.max(initial=-1)) + 1

    @lazy
    def kept(self) -> Ints:
        """The references that are in a group."""
        return np.flatnonzero(self.labels >= 0)

    @lazy
    def are_singletons(self) -> bool:
        return bool(np.all(np.bincount(self.labels[self.kept], minlength=1) <= 1))

    @lazy
    def _totals(self) -> Floats:  # (G,)
        return sums(self.labels[self.kept], self.weights[self.kept], len(self))

    @lazy
    def mass(self) -> Floats:
        """(G,) how much each group counts; sums to 1."""
        total = self._totals.sum()
        if total == 0:
            raise InputError("the references in use have no weight")
        mass: Floats = self._totals / total
        return mass

    @lazy
    def share(self) -> Floats:
        """(R,) how much each reference counts in its group; sums to 1 over each group."""
        sizes = np.bincount(self.labels[self.kept], minlength=len(self))
        # a group without weight is averaged evenly: it has no mass, but must not make NaNs
        weights = np.where(self._totals[self.labels] > 0, self.weights, 1.0)
        totals = np.where(self._totals > 0, self._totals, sizes)
        share = np.zeros_like(self.weights)
        share[self.kept] = weights[self.kept] / totals[self.labels[self.kept]]
        return share

    def only_kept(self) -> Groups:
        """The same groups over just the references that are in one."""
        return Groups(self.labels[self.kept], self.weights[self.kept])
