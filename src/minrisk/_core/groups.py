"""Groups of references that are averaged together, and their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minrisk._core.arrays import Floats, Ints, sums
from minrisk._core.errors import InputError
from minrisk._core.lazy import lazy


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of weighted references; the label -1 leaves a reference out.

    Args:
        labels: (R,) the group of each reference, from 0.
        weights: (R,) the weight of each reference; they need not sum to 1.

    >>> groups = Groups(np.array([0, 0, 1, -1]), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> groups.mass.tolist(), groups.share.round(2).tolist()
    ([0.5, 0.5], [0.33, 0.67, 1.0, 0.0])
    """

    labels: Ints  # (R,)
    weights: Floats  # (R,)

    @classmethod
    def singletons(cls, weights: Floats) -> Groups:
        """One group per reference."""
        groups = cls(np.arange(weights.size), weights)
        # what the lazy attributes would find
        vars(groups).update(members=groups.labels, are_singletons=True, _totals=weights)
        return groups

    @classmethod
    def subset(cls, weights: Floats, rows: Ints) -> Groups:
        """One group for each of these references; the others are left out."""
        labels = np.full(weights.size, -1, dtype=np.intp)
        labels[rows] = np.arange(rows.size)
        return cls(labels, weights)

    @classmethod
    def split(
        cls, weights: Floats, groups: int, rng: np.random.Generator | None = None
    ) -> Groups:
        """Groups of nearly equal size: contiguous, or at random if a generator is given."""
        if not 1 <= groups <= weights.size:
            raise InputError(f"groups must be from 1 to {weights.size}, the number of references; "
                             f"got {groups}")
        # spreads the remainder: sizes differ by at most one
        labels = np.arange(weights.size) * groups // weights.size
        return cls(labels if rng is None else rng.permutation(labels), weights)

    def __len__(self) -> int:
        return int(self.labels.max(initial=-1)) + 1

    @lazy
    def members(self) -> Ints:
        """The rows of the references that are in a group."""
        return np.flatnonzero(self.labels >= 0)

    @lazy
    def are_singletons(self) -> bool:
        return bool(np.all(np.bincount(self.labels[self.members], minlength=1) <= 1))

    @lazy
    def _totals(self) -> Floats:  # (G,)
        return sums(self.labels[self.members], self.weights[self.members], len(self))

    @lazy
    def mass(self) -> Floats:
        """(G,) weight of each group; sums to 1."""
        total = self._totals.sum()
        if total == 0:
            raise InputError("the references have no weight; expected a positive one")
        mass: Floats = self._totals / total
        return mass

    @lazy
    def share(self) -> Floats:
        """(R,) weight of each reference within its group; sums to 1 over each group."""
        sizes = np.bincount(self.labels[self.members], minlength=len(self))
        # a group without weight is averaged uniformly: its mass is 0, but NaN would spread
        weights = np.where(self._totals[self.labels] > 0, self.weights, 1.0)
        totals = np.where(self._totals > 0, self._totals, sizes)
        share = np.zeros_like(self.weights)
        share[self.members] = weights[self.members] / totals[self.labels[self.members]]
        return share

    def only_members(self) -> Groups:
        """The same groups without the references that are in none."""
        return Groups(self.labels[self.members], self.weights[self.members])
