"""JSON of any size, of which the event loop reads and writes only what is small; and the key in it,
which is never shown.
"""

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

LARGE = 1 << 16  # characters and values; what is larger is read and written beside the event loop
MAX_DEPTH = 200  # nested levels; what reads and writes JSON is recursive
_MAX_VALUES = 1 << 22  # of a response
_MAX_EVENT_VALUES = 1 << 14  # of an event in a stream, which is worked on as it comes
_MASK = "***"
_MAX_LINE = 300  # characters of a message of a server
_MIN_SECRET = 16  # characters; a shorter key ("EMPTY", "test") may be a word of a text
_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")  # ASCII that JSON needs no escape for, but may have


def is_large(found: Any) -> bool:
    """Whether characters and values add up to more than the event loop should write at once."""
    return _is_larger(found, LARGE, len)


def has_more_values(found: Any, most: int) -> bool:
    """Whether there are more than so many, however long the texts among them are."""
    return _is_larger(found, most, lambda text: 0)


def _is_larger(found: Any, most: int, size_of: Callable[[str], int]) -> bool:
    rest, size = [found], 0
    while rest and size <= most:
        value = rest.pop()
        if isinstance(value, str):
            size += size_of(value)
        elif isinstance(value, Mapping):
            size += 2 * len(value)
            rest.extend(value.values())
        elif isinstance(value, list):
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
    """As JSON, with null for the numbers that JSON has not."""
    try:
        return json.dumps(found, allow_nan=False).encode()
    except ValueError:
        return json.dumps(finite_numbers(found)).encode()


def _encoded_in_pieces(found: Any) -> bytes:
    """The same; other threads have their turn after each piece, for the encoder lets none."""
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
    """Encodes in a thread what is large, one at a time, so that the event loop has its turns."""

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
    """The JSON of a server, without the key and without numbers that JSON has not."""

    found: Any = None
    problem: InvalidResponse | None = None  # then nothing is found


def parsed(content: bytes | bytearray, mask: Mask, check: Check | None = None) -> Parsed:
    """The JSON of a response that passes the check."""
    raw = content.decode("utf-8", "replace")
    if len(raw) > _MAX_VALUES and sum(map(raw.count, ",[{")) > _MAX_VALUES:
        return _invalid(f"the response has more than {_MAX_VALUES:,} values")
    try:
        found = mask.json(json.loads(raw, parse_constant=_no_number), raw)
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
    return Parsed(found)


def parsed_event(content: bytes, mask: Mask) -> Parsed:
    """The JSON object of an event in a stream, or what is wrong with it."""
    event = parsed(content, mask)
    if event.problem is None and not isinstance(event.found, dict):
        return _invalid("no object")
    if has_more_values(event.found, _MAX_EVENT_VALUES):
        return _invalid(f"more than {_MAX_EVENT_VALUES:,} values")
    return event


def _invalid(text: str, is_temporary: bool = False) -> Parsed:
    return Parsed(problem=InvalidResponse(text, is_temporary))


def _no_number(name: str) -> None:
    """NaN and Infinity, which some servers write."""


@dataclass(frozen=True)
class Mask:
    """Hides the key wherever a server repeats it; always before a text is shortened."""

    key: str | None = field(default=None, repr=False)

    def text(self, text: str) -> str:
        return text.replace(self.key, _MASK) if self.key else text

    def line(self, text: str) -> str:
        """A message as one printable line."""
        line = self.text(" ".join(self.text(text).split()))  # the key may have blanks,
        shown = "".join(map(_printable, line[:2 * _MAX_LINE]))
        return self.text(shown)[:_MAX_LINE]  # or text that looks like an escape

    def json(self, found: Any, raw: str) -> Any:
        """Parsed JSON without the key."""
        if not self.hides_content:
            return found
        is_possible = self._longest_word in raw or _ESCAPED_ASCII.search(raw)
        return self._everywhere(found) if is_possible else found

    def body(self, raw: str) -> str:
        """The body of an error, also where JSON escapes the key."""
        try:
            found = json.loads(raw)
            masked = self._everywhere(found) if self.key else found
        except (ValueError, RecursionError):
            return self.text(raw)
        return self.text(raw) if masked == found else json.dumps(masked)

    @property
    def hides_content(self) -> bool:
        """Whether the key is hidden in samples too; a short one may be a word of theirs."""
        return self.key is not None and len(self.key) >= _MIN_SECRET

    def divided(self, text: str) -> tuple[str, str]:
        """A text without the key, and its end, as far as that may be the beginning of the key."""
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
