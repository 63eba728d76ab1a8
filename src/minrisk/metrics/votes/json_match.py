"""Votes among JSON answers: equal values, regardless of layout, or the share of equal fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import Floats, Objects, numbered, objects
from minrisk._core.json_values import NOTHING, canonical_form, find_json, leaves
from minrisk._core.lazy import lazy
from minrisk.plugins import InputError, Metric, option

_PATH = re.compile(r"[^.\[\]]+|\[\]")

FieldPath = tuple[str, ...]  # field names, with [] for every item of a list


@dataclass(frozen=True)
class JsonMatch(Metric[Objects]):
    """1 if two texts contain the same JSON value, else 0; or the share of equal fields.

    Layout, the order of keys and the spelling of numbers (1.0 is 1) do not matter. The value may be
    in a code block, or follow other words. A text without JSON agrees with no other.

    Args:
        by: compare whole values ("equal"), or score the share of equal fields ("field"): 2 * common
            / (fields of both).
        ignore: paths of fields to ignore, such as "id,items[].time".

    >>> import minrisk
    >>> answers = ['{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', '{"a": 1, "b": 3}']
    >>> minrisk.decode(answers, metric="json-match").utility.round(2).tolist()
    [0.67, 0.67, 0.33]
    """

    name = "json-match"
    cost = "n · m comparisons of values"

    by: Literal["equal", "field"] = option("equal")
    ignore: str | None = option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for given in (self.ignore or "").split(","):
            names = _PATH.findall(given)
            if given and (not names or "".join(names) != given.replace(".", "")):
                raise InputError(f"json-match: ignore has the path {given!r:.60}; expected names "
                                 "with dots between them, such as items[].time")

    @property
    def is_vote(self) -> bool:
        """Whether whole values are compared, rather than fields."""
        return self.by == "equal"

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(map(self._value, texts))

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) 1 for equal values, else 0; or the share of equal fields."""
        if self.by == "field":
            return _agreement(list(map(_fields, hyps)), list(map(_fields, refs)))
        numbers: dict[str | None, int] = {None: -1}
        left, right = (numbered(self.answers(side), numbers) for side in (hyps, refs))
        equal: Floats = ((left[:, None] == right) & (left[:, None] >= 0)).astype(np.float64)
        return equal

    def answers(self, features: Objects) -> list[str | None]:
        """(N,) the value of each text in canonical form."""
        return [canonical_form(value) for value in features]

    def answer(self, text: str) -> str | None:
        """The value of a text in canonical form."""
        return canonical_form(self._value(text))

    def _value(self, text: str) -> Any:
        value = find_json(text)
        for path in self._ignored:
            _remove(value, path)
        return value

    @lazy
    def _ignored(self) -> list[FieldPath]:
        return [tuple(_PATH.findall(path)) for path in (self.ignore or "").split(",") if path]


def _fields(value: Any) -> frozenset[tuple[str, str]] | None:
    """Every leaf value with its path."""
    return None if value is NOTHING else frozenset(leaves(value))


Fields = frozenset[tuple[str, str]] | None


def _agreement(hyps: Sequence[Fields], refs: Sequence[Fields]) -> Floats:
    scores = np.zeros((len(hyps), len(refs)))
    for row, ours in enumerate(hyps):
        for column, theirs in enumerate(refs):
            if ours is not None and theirs is not None:
                scores[row, column] = 2 * len(ours & theirs) / (len(ours) + len(theirs))
    return scores


def _remove(value: Any, path: FieldPath) -> None:
    name, rest = path[0], path[1:]
    items = ([value[name]] if name in value else []) if isinstance(value, dict) else (
        value if name == "[]" and isinstance(value, list) else [])
    if rest:
        for item in items:
            _remove(item, rest)
    elif isinstance(value, dict):
        value.pop(name, None)
