"""Features as rows of weighted texts, for metrics whose averages are linear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """A plain row is one text with weight 1, an aggregate is several.

    Averages are linear in the texts, so a weighted set of texts is an exact stand-in for the
    average of their features; aggregates of aggregates are just products of weights.
    """

    owner: object  # the metric that made them, which alone can read them
    base: Any  # the features of the distinct texts, as the metric has them
    offsets: Ints  # (rows + 1,) where each row starts in the next two
    members: Ints
    weights: Floats

    @classmethod
    def plain(cls, owner: object, base: Any, rows: Ints) -> WeightedRows:
        return cls(owner, base, np.arange(rows.size + 1), rows, np.ones(rows.size))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def is_plain(self) -> bool:
        return self.members.size == len(self) and bool(np.all(self.weights == 1))

    def __getitem__(self, rows: Ints, /) -> Self:
        members, offsets = self._expand(np.arange(len(self))[rows])
        return replace(self, offsets=offsets, members=self.members[members],
                       weights=self.weights[members])

    def check(self, user: object) -> None:
        """Features made with other options would give wrong scores without a word."""
        if self.owner != user:
            raise InputError(f"features of {self.owner} cannot be scored by {user}; "
                             "extract them with the same metric")

    def average(self, groups: Groups) -> Self:
        """A row per group: its members' texts with their shares."""
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
        """How much each member counts, where the rows count so much."""
        spread: Floats = self.weights * np.repeat(weights, np.diff(self.offsets))
        return spread

    def _expand(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where the members of these rows are, and where each row starts among them."""
        starts, sizes = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets
