"""Features as weighted sets of texts, for metrics whose averages are linear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, not_features
from minrisk._core.groups import Groups
from minrisk._core.lazy import lazy


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of features: each is one text with weight 1, or a weighted set of texts (an aggregate).

    Averages are linear in the texts, so a weighted set of texts represents the average of their
    features exactly; in an aggregate of aggregates the weights are multiplied.
    """

    owner: object  # the metric that made the features
    base: Any  # features of the distinct texts, in the metric's own format
    offsets: Ints  # (rows + 1,) start of each row in `members` and `weights`
    members: Ints  # rows of `base`
    weights: Floats  # of the members

    @classmethod
    def plain(cls, owner: object, base: Any, rows: Ints) -> Self:
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

    def check(self, user: object) -> None:
        """Raise an error if another metric uses the features: its scores would be wrong."""
        if self.owner is not user and self.owner != user:
            raise InputError(f"features of {self.owner} cannot be scored by {user}; "
                             "extract them with the same metric")

    def average(self, groups: Groups) -> Self:
        """One row per group: the texts of its members, weighted by their shares."""
        if groups.labels.size != len(self):
            raise InputError(f"expected {len(self)} labels (one per reference), got "
                             f"{groups.labels.size}")
        by_group = np.argsort(groups.labels, kind="stable")
        members, starts = self._expand(by_group)
        share = np.repeat(groups.share[by_group], np.diff(starts))
        sizes = np.bincount(groups.labels, minlength=len(groups))
        offsets = starts[np.concatenate([[0], np.cumsum(sizes)])]
        return replace(self, offsets=offsets, members=self.members[members],
                       weights=self.weights[members] * share)

    def spread(self, weights: Floats) -> Floats:
        """The weight of each member, from the weights of the rows."""
        spread: Floats = self.weights * np.repeat(weights, np.diff(self.offsets))
        return spread

    def _expand(self, rows: Ints) -> tuple[Ints, Ints]:
        """The positions of the members of these rows, and the start of each row among them."""
        starts, sizes = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets


def check_rows(user: object, *features: object) -> None:
    """Raise an error unless this metric made the features."""
    for rows in features:
        if not isinstance(rows, WeightedRows):
            raise not_features(rows)
        rows.check(user)
