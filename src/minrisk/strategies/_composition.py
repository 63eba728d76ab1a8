"""One JSON value composed of many: a weighted vote in each field, and lists aligned by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.json_values import JsonNumber, leaves, written

Numbers = Literal["vote", "median"]
Lists = Literal["elements", "whole"]
Ballot = tuple[Any, float]  # a value, and the weight of the samples that have it

_MISSING = object()  # the value of a field that an object lacks
_DIGITS = 9  # decimals of weights that count; smaller differences are ties
_MIN_SIMILARITY = 0.4  # share of equal fields from which two objects may stand for the same
_MAX_ALIGNED = 64  # objects of a list, and groups of objects, that are compared with each other


class Composer:
    """Composes a value field by field; of equal weights, the first ballot decides.

    Args:
        numbers: the most frequent number, or the median.
        lists: elements are voted on one by one, or lists as a whole.
        keys: names of fields; objects in lists stand for the same if they agree in these.

    >>> composer = Composer()
    >>> composer.compose([({"a": "x", "b": True}, 0.4), ({"a": "y", "b": True}, 0.6)])
    {'a': 'y', 'b': True}
    >>> composer.shares
    {'.a': 0.6, '.b': 1.0}
    """

    def __init__(self, numbers: Numbers = "vote", lists: Lists = "elements",
                 keys: Sequence[str] = ()) -> None:
        self._numbers = numbers
        self._lists = lists
        self._keys = keys
        self.shares: dict[str, float] = {}  # of each leaf of the composed value, by its path

    def compose(self, ballots: Sequence[Ballot], path: str = "") -> Any:
        """The consensus of the values at a path."""
        is_blank = _winner((_is_blank(value), weight) for value, weight in ballots)
        some = [one for one in ballots if _is_blank(one[0]) == is_blank]
        kind = _winner((type(value), weight) for value, weight in some)
        alike = [one for one in some if type(one[0]) is kind]
        found: Any = None
        if kind is dict:
            found = self._object(alike, path)
        elif kind is list and self._lists == "elements":
            found = self._list(alike, path)
        if found:
            return found  # its leaves have shares
        if found is None:
            found = (_median(alike) if kind is JsonNumber and self._numbers == "median"
                     else _most_frequent(alike))
        if found is not _MISSING:
            self.shares[path] = _weight(one for one in alike if _name(one[0]) == _name(found))
        return found

    def _object(self, ballots: Sequence[Ballot], path: str) -> dict[str, Any]:
        columns: dict[str, list[Ballot]] = {}
        for place, (value, weight) in enumerate(ballots):
            for name, item in value.items():
                # an entry without weight says that the first ballot, which decides ties, lacks it
                columns.setdefault(name, [(_MISSING, 0.0)] if place else []).append((item, weight))
        total = _weight(ballots)
        composed = {name: self.compose([*column, (_MISSING, total - _weight(column))],
                                       f"{path}.{name}") for name, column in columns.items()}
        return {name: value for name, value in composed.items() if value is not _MISSING}

    def _list(self, ballots: Sequence[Ballot], path: str) -> list[Any]:
        """The elements that most lists have, in their mean order."""
        aligned = _Alignment(self._keys)
        for value, weight in ballots:
            aligned.add(value, weight)
        total = _weight(ballots)
        groups = [group for group in aligned.groups if _winner(
            [(group.is_first, 0.0), (True, group.weight), (False, total - group.weight)])]
        groups.sort(key=lambda group: round(group.place, _DIGITS))
        return [self.compose(group.ballots, f"{path}[{place}]")
                for place, group in enumerate(groups)]


def _winner(ballots: Iterable[tuple[Any, float]]) -> Any:
    """The value with the largest weight; the first one of equal weights."""
    totals: dict[Hashable, float] = {}
    for value, weight in ballots:
        totals[value] = totals.get(value, 0.0) + weight
    return max(totals, key=lambda value: round(totals[value], _DIGITS))


def _weight(ballots: Iterable[Ballot]) -> float:
    return sum(weight for _, weight in ballots)


def _is_blank(value: Any) -> bool:
    return value is None or value is _MISSING


def _name(value: Any) -> Hashable:
    """A value as text, so that equal ones of a type are equal."""
    return written(value) if isinstance(value, (dict, list)) else value


def _most_frequent(ballots: Sequence[Ballot]) -> Any:
    winner = _winner((_name(value), weight) for value, weight in ballots)
    return next(value for value, _ in ballots if _name(value) == winner)


def _median(ballots: Sequence[Ballot]) -> JsonNumber:
    """The weighted median; of an even number, the lower one."""
    ordered = sorted(ballots, key=lambda ballot: _size(ballot[0]))
    below = np.cumsum([weight for _, weight in ordered])
    found: JsonNumber = ordered[int(np.argmax(np.round(below - below[-1] / 2, _DIGITS) >= 0))][0]
    return found


def _size(number: JsonNumber) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation:  # the exponent has more than 18 digits
        return Decimal(0 if "E-" in number else "-Infinity" if number[0] == "-" else "Infinity")


@dataclass(eq=False)
class _Group:
    """Elements of several lists that stand for the same."""

    is_first: bool  # whether the first list has it
    ballots: list[Ballot] = field(default_factory=list)
    weight: float = 0.0
    _places: float = 0.0
    _fields: Counter[tuple[str, str]] = field(default_factory=Counter)  # with their weights
    _counted: int = 0  # ballots of which `_fields` has the fields

    @property
    def place(self) -> float:
        """The mean position in the lists."""
        return self._places / self.weight if self.weight else 0.0

    def add(self, value: Any, weight: float, place: int) -> None:
        self.ballots.append((value, weight))
        self.weight += weight
        self._places += weight * place

    def similarity(self, fields: Sequence[tuple[str, str]]) -> float:
        """The share of equal fields, as a mean over the objects of the group."""
        for value, weight in self.ballots[self._counted:]:
            for one in leaves(value):
                self._fields[one] += weight  # type: ignore[assignment]
        self._counted = len(self.ballots)
        common = sum(self._fields[one] for one in fields)
        return 2 * common / (self.weight * len(fields) + self._fields.total())


class _Alignment:
    """Aligns the elements of lists: equal ones, objects with equal keys, then similar objects.

    The k-th of equal elements of a list is aligned with the k-th of another.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.groups: list[_Group] = []
        self._known: dict[Hashable, _Group] = {}
        self._lists = 0

    def add(self, items: Sequence[Any], weight: float) -> None:
        """Align the elements of another list."""
        self._lists += 1
        names = self._names(items)
        free = dict.fromkeys(range(len(items)))  # places of elements without a group
        taken: set[_Group] = set()

        def join(group: _Group, place: int) -> None:
            del free[place]
            taken.add(group)
            group.add(items[place], weight, place)
            self._known.setdefault(names[place], group)

        for place, name in enumerate(names):
            group = self._known.get(name)
            if group is not None and group not in taken:
                join(group, place)
        for group, place in self._similar(items, free, taken):
            join(group, place)
        for place in [*free]:
            group = _Group(self._lists == 1)
            self.groups.append(group)
            join(group, place)

    def _names(self, items: Sequence[Any]) -> list[Hashable]:
        """What identifies each element: the values of its keys or else its text, and how many
        elements of the list before it have the same.
        """
        seen: Counter[Hashable] = Counter()
        names: list[Hashable] = []
        for item in items:
            name = (tuple(written(item.get(key)) for key in self._keys) if self._has_key(item)
                    else written(item))
            names.append((name, seen[name]))
            seen[name] += 1
        return names

    def _similar(self, items: Sequence[Any], free: Iterable[int],
                 taken: set[_Group]) -> list[tuple[_Group, int]]:
        places = [place for place in free if self._is_without_key(items[place])][:_MAX_ALIGNED]
        groups = [group for group in self.groups if group not in taken
                  and self._is_without_key(group.ballots[0][0])][:_MAX_ALIGNED]
        if not (places and groups):
            return []
        scores = np.array([[group.similarity(fields) for group in groups]
                           for fields in (list(leaves(items[place])) for place in places)])
        return [(groups[column], places[row]) for row, column in assignment(scores)
                if scores[row, column] >= _MIN_SIMILARITY]

    def _has_key(self, item: Any) -> bool:
        return isinstance(item, dict) and any(key in item for key in self._keys)

    def _is_without_key(self, item: Any) -> bool:
        return isinstance(item, dict) and not self._has_key(item)


def assignment(scores: Floats) -> list[tuple[int, int]]:
    """The pairs of rows and columns with the largest sum of scores, each used once at most.

    This is the Hungarian algorithm with shortest augmenting paths (Kuhn 1955; Jonker & Volgenant
    1987), so that results do not depend on whether SciPy is installed.

    >>> assignment(np.array([[0.9, 0.8, 0.0], [0.8, 0.1, 0.0]]))
    [(1, 0), (0, 1)]
    """
    rows, columns = scores.shape
    if rows > columns:
        return [(row, column) for column, row in assignment(scores.T)]
    row_prices, prices = np.zeros(rows + 1), np.zeros(columns + 1)
    owner = np.zeros(columns + 1, np.intp)  # 1-based row of each column; column 0 is a start
    for row in range(1, rows + 1):
        owner[0], column = row, 0
        distance = np.full(columns + 1, np.inf)
        previous = np.zeros(columns + 1, np.intp)
        is_done = np.zeros(columns + 1, bool)
        while owner[column]:
            is_done[column] = True
            reduced = np.full(columns + 1, np.inf)
            reduced[1:] = -scores[owner[column] - 1] - row_prices[owner[column]] - prices[1:]
            is_nearer = ~is_done & (reduced < distance)
            distance[is_nearer], previous[is_nearer] = reduced[is_nearer], column
            column = int(np.where(is_done, np.inf, distance).argmin())
            step = distance[column]
            row_prices[owner[is_done]] += step
            prices[is_done] -= step
            distance[~is_done] -= step
        while column:
            owner[column] = owner[previous[column]]
            column = int(previous[column])
    return [(int(owner[column]) - 1, column - 1) for column in range(1, columns + 1)
            if owner[column]]
