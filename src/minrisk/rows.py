"""Features as rows of weighted texts, for metrics whose averages are linear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from minrisk.arrays import Floats, Ints
from minrisk.groups import Groups


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """A plain row is one text with weight 1, an aggregate is several.

    Averages are linear in the texts, so a weighted set of texts is an exact stand-in for the
    average of their features; aggregates of aggregates are just products of weights.
    """

    base: Any  # the features of the distinct texts, as the metric has them
    offsets: Ints  # (rows + 1,) where each row starts in the next two
    members: Ints
    weights: Floats

    @classmethod
    def plain(cls, base: Any, rows: Ints) -> WeightedRows:
        return cls(base, np.arange(rows.size + 1), rows, np.ones(rows.size))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def is_plain(self) -> bool:
        return self.members.size == len(self) and bool(np.all(self.weights == 1))

    def __getitem__(self, rows: Ints, /) -> Self:
        members, offsets = self._expand(np.arange(len(self))[rows])
        return type(self)(self.base, offsets, self.members[members], self.weights[members])

    def average(self, groups: Groups) -> Self:
        """A row per group: its members' texts with their shares."""
        by_group = np.argsort(groups.labels, kind="stable")
        members, starts = self._expand(by_group)
        share = np.repeat(groups.share[by_group], np.diff(starts))
        sizes = np.bincount(groups.labels, minlength=len(groups))
        offsets = starts[np.concatenate([[0], np.cumsum(sizes)])]
        return type(self)(self.base, offsets, self.members[members],
                          self.weights[members] * share)

    def _expand(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where the members of these rows are, and where each row starts among them."""
        starts, sizes = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets
