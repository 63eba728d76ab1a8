"""JSON values in texts: finding, comparing and writing them, with numbers as they are written.

A number is the string of its shortest form, so that equal numbers are equal strings, none is
rounded and none overflows. NaN and infinity are no JSON, and a repeated key has its last value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

_FENCED = re.compile(r"```[a-zA-Z]*[^\S\n]*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_ZEROS = 20  # trailing zeros above which a number is written with an exponent
_MAX_STARTS = 100  # positions in a text at which parsing is tried
_MAX_DEPTH = 100  # nesting depth above which a value does not count as an answer


class JsonNumber(str):
    """A number in its shortest JSON form, so that equal numbers are equal strings."""

    __slots__ = ()


NOTHING = object()  # the value of a text without JSON


def canonical(text: str) -> str | None:
    """The JSON value of a text in canonical form; None if there is none.

    >>> canonical('{"b": 1.50, "a": [true, 1e2]}')
    '{"a":[true,100],"b":1.5}'
    """
    return canonical_form(find_json(text))


def canonical_form(value: Any) -> str | None:
    """A value with sorted keys and without spaces, so that equal values are equal strings."""
    return None if value is NOTHING else written(value)


def find_json(text: str) -> Any:
    """The value of the whole text, its last code block, or the first object or list in it."""
    return next(_values(text), NOTHING)


def _values(text: str) -> Iterator[Any]:
    blocks = _FENCED.findall(text)
    for part in (text, *blocks[-1:]):
        with suppress(ValueError, RecursionError):
            yield parse_json(part)
    for match in islice(re.finditer(r"[\[{]", text), _MAX_STARTS):
        with suppress(ValueError, RecursionError):
            yield _checked(_DECODER.raw_decode(text, match.start())[0])


def parse_json(text: str) -> Any:
    """The value of a whole text; raises ValueError or RecursionError if it is not JSON."""
    return _checked(_DECODER.decode(text.strip()))


def _checked(value: Any) -> Any:
    """The value; raises ValueError if it is nested too deeply for recursion."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [item for outer in level if isinstance(outer, (dict, list))
                 for item in (outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("nested too deeply")
    return value


def _number(text: str) -> JsonNumber:
    """Works on the digits, because arithmetic would round long numbers."""
    match = _NUMBER.fullmatch(text)
    assert match is not None  # the JSON parser accepted it
    sign, whole, fraction, power = match.groups("")
    shown = (whole + fraction).lstrip("0")
    short = shown.rstrip("0")
    exponent = int(power or 0) - len(fraction) + len(shown) - len(short)
    if not short:
        return JsonNumber("0")
    if 0 <= exponent <= _MAX_ZEROS:
        short += "0" * exponent
    elif -_MAX_ZEROS <= exponent < 0:
        short = short.rjust(1 - exponent, "0")
        short = f"{short[:exponent]}.{short[exponent:]}"
    else:
        short = f"{short}E{exponent}"
    return JsonNumber(f"-{short}" if sign else short)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_no_number)


def written(value: Any, sort_keys: bool = True) -> str:
    """A value as JSON without spaces."""
    if isinstance(value, JsonNumber):
        return value
    if isinstance(value, dict):
        keys = sorted(value) if sort_keys else value
        return "{" + ",".join(f"{_text(key)}:{written(value[key], sort_keys)}"
                              for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, sort_keys) for item in value) + "]"
    return _text(value)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of a value with its path, such as `.items[0].name`; an empty list is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from leaves(item, f"{path}[{place}]")
    else:
        yield path, written(value)


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # UTF-8 has no lone surrogates, so they stay escaped
    return json.dumps(value) if _SURROGATE.search(text) else text
