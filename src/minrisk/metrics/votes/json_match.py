"""Votes among JSON answers: equal values, regardless of layout, or the share of equal fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk._core.arrays import Floats, Objects, numbered, objects
from minrisk._core.errors import InputError
from minrisk._core.lazy import lazy
from minrisk._core.metric import Metric
from minrisk._core.options import option

_FENCED = re.compile(r"```[a-zA-Z]*[^\S\n]*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?")
_PATH = re.compile(r"[^.\[\]]+|\[\]")
_MAX_ZEROS = 20  # trailing zeros above which a number is written with an exponent
_MAX_STARTS = 100  # positions in a text at which parsing is tried
_MAX_DEPTH = 100  # nesting depth above which a value does not count as an answer

FieldPath = tuple[str, ...]  # field names, with [] for every item of a list


class _Number(str):
    """A number in its shortest JSON form, so that equal numbers are equal strings."""

    __slots__ = ()


@dataclass(frozen=True)
class JsonMatch(Metric[Objects]):
    """1 where two texts hold the same JSON value, else 0; or the share of fields that agree

    Layout, the order of keys and the spelling of numbers (1.0 is 1) do not matter. The value may be
    in a code block, or follow other words. A text without JSON agrees with no other.

    Args:
        by: `equal` values, or agreement by field: 2 * common / (fields of both).
        ignore: paths of fields to ignore, such as "id,items[].time".

    >>> import minrisk
    >>> answers = ['{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', '{"a": 1, "b": 3}']
    >>> minrisk.decode(answers, metric="json-match").utility.round(2).tolist()
    [0.67, 0.67, 0.33]
    """

    name: ClassVar[str] = "json-match"
    cost: ClassVar[str] = "n · m comparisons of values"

    by: Literal["equal", "field"] = option("equal", help="whole values, or field by field")
    ignore: str | None = option(None, help='paths that do not count, such as "id,items[].time"')

    def __post_init__(self) -> None:
        super().__post_init__()
        for given in (self.ignore or "").split(","):
            names = _PATH.findall(given)
            if given and (not names or "".join(names) != given.replace(".", "")):
                raise InputError(f"json-match: ignore has the path {given!r:.60}; wanted names "
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
        return [_answer(value) for value in features]

    def answer(self, text: str) -> str | None:
        """The value of a text in canonical form."""
        return _answer(self._value(text))

    def _value(self, text: str) -> Any:
        value = _find(text)
        for path in self._ignored:
            _remove(value, path)
        return value

    @lazy
    def _ignored(self) -> list[FieldPath]:
        return [tuple(_PATH.findall(path)) for path in (self.ignore or "").split(",") if path]


def canonical(text: str) -> str | None:
    """The JSON value of a text in canonical form; None if there is none.

    >>> canonical('{"b": 1.50, "a": [true, 1e2]}')
    '{"a":[true,100],"b":1.5}'
    """
    return _answer(_find(text))


_NOTHING = object()


def _answer(value: Any) -> str | None:
    return None if value is _NOTHING else _written(value)


def _find(text: str) -> Any:
    """The value of the whole text, its last code block, or the first object or list in it."""
    return next(_values(text), _NOTHING)


def _values(text: str) -> Iterator[Any]:
    blocks = _FENCED.findall(text)
    for part in (text, *blocks[-1:]):
        with suppress(ValueError, RecursionError):
            yield _checked(_DECODER.decode(part.strip()))
    for match in islice(re.finditer(r"[\[{]", text), _MAX_STARTS):
        with suppress(ValueError, RecursionError):
            yield _checked(_DECODER.raw_decode(text, match.start())[0])


def _checked(value: Any) -> Any:
    """The value; raises ValueError if it is nested too deeply for recursion."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [item for outer in level if isinstance(outer, (dict, list))
                 for item in (outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("nested too deeply")
    return value


def _number(text: str) -> _Number:
    """Works on the digits, because arithmetic would round long numbers."""
    match = _NUMBER.fullmatch(text)
    assert match is not None  # the JSON parser accepted it
    sign, whole, fraction, power = match.groups("")
    shown = (whole + fraction).lstrip("0")
    short = shown.rstrip("0")
    exponent = int(power or 0) - len(fraction) + len(shown) - len(short)
    if not short:
        return _Number("0")
    if 0 <= exponent <= _MAX_ZEROS:
        short += "0" * exponent
    elif -_MAX_ZEROS <= exponent < 0:
        short = short.rjust(1 - exponent, "0")
        short = f"{short[:exponent]}.{short[exponent:]}"
    else:
        short = f"{short}E{exponent}"
    return _Number(f"-{short}" if sign else short)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_no_number)


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fields(value: Any) -> frozenset[tuple[str, str]] | None:
    """Every leaf value with its path."""
    return None if value is _NOTHING else frozenset(_leaves(value, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}[{place}]")
    else:
        yield path, _written(value)


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
