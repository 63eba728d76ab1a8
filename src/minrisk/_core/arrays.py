"""Array types. Sizes in comments: H hypotheses, R references, G groups, D dimensions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Objects = npt.NDArray[np.object_]  # Python objects: strings, lists of words, ...
Points = Any  # (N, D) a NumPy array, or a torch tensor on any device


def sums(labels: Ints, values: Floats, count: int) -> Floats:
    """(count,) the sum of the values with each label."""
    totals: Floats = np.bincount(labels, values, minlength=count).astype(np.float64)
    return totals


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct ones of some labels, as from `np.unique`, but in linear time.

    >>> found = Distinct.from_labels(np.array([4, 1, 4]), 5)
    >>> found.labels.tolist(), found.inverse.tolist(), found.first.tolist()
    ([1, 4], [1, 0, 1], [1, 0])
    """

    labels: Ints  # (D,) sorted
    inverse: Ints  # (N,) the position of each label among the distinct ones

    @classmethod
    def from_labels(cls, labels: Ints, count: int) -> Distinct:
        """The distinct ones of labels from 0 and below `count`."""
        is_there = np.zeros(count, np.bool_)
        is_there[labels] = True
        return cls(is_there.nonzero()[0], (is_there.cumsum() - 1)[labels])

    @property
    def first(self) -> Ints:
        """(D,) the first position of each."""
        first = np.empty_like(self.labels)
        # in reverse, so that the first position of each remains
        first[self.inverse[::-1]] = np.arange(self.inverse.size)[::-1]
        return first


def objects(values: Iterable[Any]) -> Objects:
    """(N,) an array with one element per value, even if the values are lists."""
    return np.fromiter(values, dtype=object)


def numbered(values: Iterable[Hashable], known: dict[Any, int]) -> Ints:
    """(N,) the number of each value in `known`, to which new ones are added with the next number.

    >>> known = {"a": 0}
    >>> numbered(["b", "a", "b", "c"], known).tolist(), known
    ([1, 0, 1, 2], {'a': 0, 'b': 1, 'c': 2})
    """
    return np.array([known.setdefault(value, len(known)) for value in values], np.intp)


def ranges(first: Ints, last: Ints) -> Ints:
    """The numbers from each `first` to below its `last`, one range after the other.

    >>> ranges(np.array([3, 7]), np.array([5, 8])).tolist()
    [3, 4, 7]
    """
    sizes = last - first
    starts = np.cumsum(sizes) - sizes
    numbers: Ints = np.repeat(first - starts, sizes) + np.arange(sizes.sum())
    return numbers


def blocks_of(sizes: Ints, most: int) -> list[Ints]:
    """The places of the sizes, in blocks whose sizes add up to about `most`."""
    block = (np.cumsum(sizes) - sizes) // most
    return np.split(np.arange(sizes.size), np.flatnonzero(np.diff(block)) + 1)


def first_places(labels: Ints) -> Ints:
    """(D,) the first position of each distinct label, in order."""
    first: dict[int, int] = {}
    for position, label in enumerate(labels.tolist()):
        first.setdefault(label, position)
    return np.fromiter(first.values(), np.intp, len(first))


def finite_or_none(number: float | None) -> float | None:
    """The number; None for NaN and infinities, which JSON cannot express."""
    return number if number is not None and math.isfinite(number) else None


def finite_numbers(value: Any) -> Any:
    """A JSON value with None in place of NaN and infinities."""
    if isinstance(value, dict):
        return {key: finite_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite_numbers(item) for item in value]
    return finite_or_none(value) if isinstance(value, float) else value


def finite_rows(points: Points) -> npt.NDArray[np.bool_]:
    """(N,) whether each row of an array or a tensor is finite."""
    with np.errstate(invalid="ignore"):
        zero = (points * 0).sum(1)  # NaN wherever a row has a NaN or an infinity
    is_finite: npt.NDArray[np.bool_] = np.array(zero.tolist()) == 0
    return is_finite
