"""JSON encoding and parsing that does not block the event loop, and masking of the API key."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from minrisk._core.arrays import finite_numbers
from minrisk.openai.errors import InvalidResponse

LARGE = 1 << 16  # characters plus values; larger JSON is processed outside the event loop
MAX_DEPTH = 200  # nested levels, because parsing and encoding are recursive
_MAX_VALUES = 1 << 22  # values in a response
_MAX_EVENT_VALUES = 1 << 14  # values in an event, which is processed in the event loop
_MASK = "***"
_MAX_LINE = 300  # characters of a server's message
_MIN_SECRET = 16  # characters; a shorter key ("EMPTY", "test") may be an ordinary word
_CHANGED = ("NaN", "Infinity", "\ufffd")  # what a response may have and JSON in UTF-8 cannot
_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")  # printable ASCII that is escaped without need


def is_large(found: Any) -> bool:
    """Whether a JSON value is too large to be encoded in the event loop."""
    return _is_larger(found, LARGE, len)


def has_more_values(found: Any, most: int) -> bool:
    """Whether there are more than `most` values, regardless of the length of strings."""
    return _is_larger(found, most, lambda text: 0)


def _is_larger(found: Any, most: int, size_of: Callable[[str], int]) -> bool:
    rest, size = [found], 0
    while rest and size <= most:
        value = rest.pop()
        kind = type(value)  # `isinstance` of Mapping would take most of the time
        if kind is str:
            size += size_of(value)
        elif kind is dict or isinstance(value, Mapping):
            size += 2 * len(value)
            rest.extend(value.values())
        elif kind is list:
            size += len(value)
            rest.extend(value)
    return size > most


def levels(found: Any) -> Iterator[list[Any]]:
    """The objects and lists, level by level."""
    level = [found]
    while level := [value for value in level if isinstance(value, dict | list)]:
        yield level
        level = [item for value in level
                 for item in (value.values() if isinstance(value, dict) else value)]


def encoded(found: Any) -> bytes:
    """The value as JSON, with null for NaN and infinities."""
    try:
        return json.dumps(found, allow_nan=False).encode()
    except ValueError:
        return json.dumps(finite_numbers(found)).encode()


def _encoded_in_pieces(found: Any) -> bytes:
    """Like `encoded`, in pieces, because the C encoder holds the GIL throughout."""
    try:
        return "".join(_pieces(found)).encode()
    except ValueError:
        return "".join(_pieces(finite_numbers(found))).encode()


def _pieces(found: Any) -> Iterator[str]:
    if isinstance(found, Mapping) and is_large(found):
        start = "{"
        for name, value in found.items():
            yield f"{start}{json.dumps(name)}: "
            yield from _pieces(value)
            start = ", "
        yield "}"
    elif isinstance(found, list) and is_large(found):
        start = "["
        for value in found:
            yield start
            yield from _pieces(value)
            start = ", "
        yield "]"
    else:
        yield json.dumps(found, allow_nan=False)


class Encoder:
    """Encodes large values in a thread, one at a time, so that the event loop is not blocked."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def encode(self, found: Any) -> bytes:
        if not is_large(found):
            return encoded(found)
        async with self._turn:
            return await asyncio.to_thread(_encoded_in_pieces, found)


Check = Callable[[Any], InvalidResponse | None]


@dataclass(frozen=True)
class Parsed:
    """JSON from a server, with the key masked and None for NaN and infinities."""

    found: Any = None
    problem: InvalidResponse | None = None  # if set, `found` is None
    is_unchanged: bool = False  # whether the server's bytes say the same, so they may be forwarded


def parsed(content: bytes | bytearray, mask: Mask, check: Check | None = None) -> Parsed:
    """The JSON of a response, or its problem; `check` validates it."""
    raw = content.decode("utf-8", "replace")
    if len(raw) > _MAX_VALUES and sum(map(raw.count, ",[{")) > _MAX_VALUES:
        return _invalid(f"the response has more than {_MAX_VALUES:,} values")
    try:
        whole = json.loads(raw, parse_constant=_no_number)
        found = mask.json(whole, raw)
    except ValueError:
        return _invalid("the response is no whole JSON", is_temporary=True)
    except RecursionError:
        return _invalid("the response is nested too deeply")
    # fewer brackets cannot be so deep
    if sum(map(raw.count, "[{")) > MAX_DEPTH and len([*islice(levels(found), MAX_DEPTH + 1)]
                                                     ) > MAX_DEPTH:
        return _invalid(f"the response is nested more than {MAX_DEPTH} levels deep")
    if problem := check(found) if check else None:
        return _invalid(f"found {mask.line(raw)}, {problem.text}", problem.is_temporary)
    is_unchanged = found is whole and not any(map(raw.__contains__, _CHANGED))
    return Parsed(found, is_unchanged=is_unchanged)


def parsed_event(content: bytes, mask: Mask) -> Parsed:
    """The JSON object of an event in a stream, or its problem."""
    event = parsed(content, mask)
    if event.problem is None and not isinstance(event.found, dict):
        return _invalid("no object")
    if has_more_values(event.found, _MAX_EVENT_VALUES):
        return _invalid(f"more than {_MAX_EVENT_VALUES:,} values")
    return event


def _invalid(text: str, is_temporary: bool = False) -> Parsed:
    return Parsed(problem=InvalidResponse(text, is_temporary))


def _no_number(name: str) -> None:
    """Parses NaN and Infinity, which some servers write, as None."""


@dataclass(frozen=True)
class Mask:
    """Masks the key wherever a server repeats it; must be applied before text is shortened."""

    key: str | None = field(default=None, repr=False)

    def text(self, text: str) -> str:
        return text.replace(self.key, _MASK) if self.key else text

    def line(self, text: str) -> str:
        """A message as one printable line."""
        line = self.text(" ".join(self.text(text).split()))  # twice: a key may have spaces
        shown = "".join(map(_printable, line[:2 * _MAX_LINE]))
        return self.text(shown)[:_MAX_LINE]  # again, because escapes may have produced it

    def json(self, found: Any, raw: str) -> Any:
        """Parsed JSON with the key masked."""
        if not self.hides_content:
            return found
        is_possible = self._longest_word in raw or _ESCAPED_ASCII.search(raw)
        return self._everywhere(found) if is_possible else found

    def body(self, raw: str) -> str:
        """The body of an error with the key masked, even if it is escaped in JSON."""
        try:
            found = json.loads(raw)
            masked = self._everywhere(found) if self.key else found
        except (ValueError, RecursionError):
            return self.text(raw)
        return self.text(raw) if masked == found else json.dumps(masked)

    @property
    def hides_content(self) -> bool:
        """Whether to mask the key in samples, too; a short key may be an ordinary word."""
        return self.key is not None and len(self.key) >= _MIN_SECRET

    def divided(self, text: str) -> tuple[str, str]:
        """The masked text, and its end if that may be the beginning of the key."""
        assert self.key is not None
        last = text.rpartition(self.key)[2]
        size = next((size for size in range(min(len(last), len(self.key) - 1), 0, -1)
                     if last.endswith(self.key[:size])), 0)
        place = len(text) - size
        return self.text(text[:place]), text[place:]

    @property
    def _longest_word(self) -> str:
        """The longest part of the key that JSON never escapes."""
        assert self.key is not None
        words: list[str] = re.findall("[A-Za-z0-9]*", self.key)
        return max(words, key=len)

    def _everywhere(self, found: Any) -> Any:
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, list):
            return [self._everywhere(item) for item in found]
        if isinstance(found, dict):
            return {self.text(name): self._everywhere(item) for name, item in found.items()}
        return found


def _printable(character: str) -> str:
    """The character, escaped if it is a control character, which could change a terminal."""
    return character if character.isprintable() else ascii(character)[1:-1]
