"""Groups of references that are averaged together, and `WeightedRows`, features for metrics whose
averages are linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from minrisk._core.arrays import Floats, Ints, ranges, sums
from minrisk._core.errors import InputError, not_features
from minrisk._core.lazy import lazy


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of weighted references; those of a group are averaged.

    Args:
        labels: (R,) the group of each reference, from 0.
        weights: (R,) the weight of each reference, 0 to leave one out; they need not sum to 1.

    >>> groups = Groups(np.array([0, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 0.0]))
    >>> groups.mass.tolist(), groups.share.round(2).tolist()
    ([0.5, 0.5], [0.33, 0.67, 1.0, 0.0])
    """

    labels: Ints  # (R,)
    weights: Floats  # (R,)

    def __post_init__(self) -> None:
        if self.labels.min(initial=0) < 0:
            raise InputError("every reference needs a group from 0; found the label "
                             f"{self.labels.min()}: give a weight of 0 to leave a reference out")

    @classmethod
    def split(
        cls, weights: Floats, groups: int, rng: np.random.Generator | None = None
    ) -> Groups:
        """Groups of nearly equal size: contiguous, or at random if a generator is given."""
        if not 1 <= groups <= weights.size:
            raise InputError(f"groups must be from 1 to {weights.size}, the number of references; "
                             f"got {groups}")
        # sizes differ by at most one
        labels = np.arange(weights.size) * groups // weights.size
        return cls(labels if rng is None else rng.permutation(labels), weights)

    def __len__(self) -> int:
        return int(self.labels.max(initial=-1)) + 1

    @lazy
    def sizes(self) -> Ints:
        """(G,) number of references in each group."""
        return np.bincount(self.labels, minlength=len(self))

    @lazy
    def _totals(self) -> Floats:  # (G,)
        return sums(self.labels, self.weights, len(self))

    @lazy
    def mass(self) -> Floats:
        """(G,) weight of each group; sums to 1."""
        return mass_of(self._totals)

    @lazy
    def share(self) -> Floats:
        """(R,) weight of each reference within its group; sums to 1 over each group."""
        # a group without weight is averaged uniformly: 0 / 0 would be NaN, and NaN * 0 is NaN
        weights = np.where(self._totals[self.labels] > 0, self.weights, 1.0)
        totals = np.where(self._totals > 0, self._totals, self.sizes)
        share: Floats = weights / totals[self.labels]
        return share


def mass_of(weights: Floats) -> Floats:
    """The weights of some references or groups, divided by their sum."""
    total = weights.sum()
    if total == 0:
        raise InputError("the weights of the references are all zero; at least one must be "
                         "positive")
    mass: Floats = weights / total
    return mass


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of features: each is one text with weight 1, or a weighted set of texts (an aggregate).

    Averages are linear in the texts, so a weighted set of texts represents the average of their
    features exactly; in an aggregate of aggregates the weights are multiplied.
    """

    owner: object  # the metric that extracted the features
    base: Any  # features of the distinct texts, in the metric's own format
    offsets: Ints  # (rows + 1,) start of each row in `members` and `weights`
    members: Ints  # rows of `base`
    weights: Floats  # one per member

    @classmethod
    def plain(cls, owner: object, base: Any, rows: Ints | None = None) -> Self:
        """A text per row: those of `base` at these rows, or all."""
        rows = np.arange(len(base)) if rows is None else rows
        return cls(owner, base, np.arange(rows.size + 1), rows, np.ones(rows.size))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @lazy
    def is_plain(self) -> bool:
        """Whether each row is one text with weight 1."""
        return self.members.size == len(self) and bool((self.weights == 1).all())

    def __getitem__(self, rows: Ints, /) -> Self:
        if self.is_plain:
            return self.plain(self.owner, self.base, self.members[rows])
        members, offsets = self._expand(np.arange(len(self))[rows])
        return replace(self, offsets=offsets, members=self.members[members],
                       weights=self.weights[members])

    @property
    def rows(self) -> Ints:
        """The row of each member."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def listed(self) -> list[Any]:
        """What `base` has of each member."""
        return [self.base[row] for row in self.members]

    def check(self, user: object) -> None:
        """Raise an error if `user` is not the metric that extracted the features."""
        if self.owner is not user and self.owner != user:
            raise InputError(f"features of {self.owner} cannot be scored by {user}; "
                             "extract them with the same metric")

    def check_texts(self) -> None:
        """Raise an error if a row is no text but an aggregate."""
        if not self.is_plain:
            name = getattr(self.owner, "name", self.owner)
            raise InputError(f"{name} scores texts against references: an aggregate cannot be the "
                             "hypothesis")

    def average(self, groups: Groups) -> Self:
        """One row per group: the texts of its members, weighted by their shares."""
        if groups.labels.size != len(self):
            raise InputError(f"expected {len(self)} labels (one per reference), got "
                             f"{groups.labels.size}")
        by_group = np.argsort(groups.labels, kind="stable")
        members, starts = self._expand(by_group)
        share = np.repeat(groups.share[by_group], np.diff(starts))
        offsets = starts[np.concatenate([[0], np.cumsum(groups.sizes)])]
        return replace(self, offsets=offsets, members=self.members[members],
                       weights=self.weights[members] * share)

    def spread(self, weights: Floats) -> Floats:
        """The weight of each member, given a weight per row."""
        spread: Floats = self.weights * np.repeat(weights, np.diff(self.offsets))
        return spread

    def _expand(self, rows: Ints) -> tuple[Ints, Ints]:
        """The positions of the members of these rows, and where each row starts among them."""
        first, last = self.offsets[rows], self.offsets[rows + 1]
        return ranges(first, last), np.concatenate([[0], np.cumsum(last - first)])


def check_rows(user: object, *features: object) -> None:
    """Raise an error unless this metric extracted the features."""
    for rows in features:
        if not isinstance(rows, WeightedRows):
            raise not_features(rows)
        rows.check(user)
