"""Streamed responses in OpenAI's protocol: server-sent events, and what they make up, without key.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from minrisk.openai.masking import Mask

DONE = "[DONE]"
_MAX_EVENT = 1 << 22  # bytes
# these are no pieces of a text, though some servers repeat them in every event
_WHOLE = {"role", "id", "type", "name", "object", "finish_reason", "model", "index", "created"}


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The data of each event; comments and names of events are dropped.

    Raises:
        ValueError: if an event is too large.
    """
    lines: list[str] = []
    async for line in _lines(chunks):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []
    if lines:  # some servers leave out the last empty line
        yield "\n".join(lines)


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_EVENT:
            raise ValueError(f"a line has more than {_MAX_EVENT:,} bytes")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


class StreamMask:
    """Hides the key in the chunks of a stream, also where it comes in pieces.

    What may be the beginning of the key, at the end of a text, waits for more of the text.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._waiting: dict[tuple[Any, ...], str] = {}  # by choice, and the fields to the text
        self._last: dict[str, Any] = {}  # chunk

    def masked(self, chunk: dict[str, Any]) -> dict[str, Any]:
        choices = chunk.get("choices")
        if not (self._mask.hides_content and isinstance(choices, list)):
            return chunk
        self._last = chunk
        return chunk | {"choices": [self._choice(choice) if isinstance(choice, dict) else choice
                                    for choice in choices]}

    @property
    def rest(self) -> dict[str, Any] | None:
        """A chunk with what still waits at the end of a stream."""
        choices = [{"index": place[0], "finish_reason": None} | _nested(place[1:], text)
                   for place, text in self._waiting.items()]
        return self._last | {"choices": choices} if choices else None

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        own = _key(choice)
        found = self._part(choice, (own,))
        if choice.get("finish_reason"):
            for place in [place for place in self._waiting if place[0] == own]:
                _join(found, _nested(place[1:], self._waiting.pop(place)))
        return found

    def _part(self, part: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
        return {name: value if name in _WHOLE else self._value(value, (*place, name))
                for name, value in part.items()}

    def _value(self, value: Any, place: tuple[Any, ...]) -> Any:
        if isinstance(value, str):
            shown, waiting = self._mask.divided(self._waiting.pop(place, "") + value)
            if waiting:
                self._waiting[place] = waiting
            return shown
        if isinstance(value, dict):
            return self._part(value, place)
        if isinstance(value, list):
            return [self._part(item, (*place, item["index"])) if _is_indexed(item) else item
                    for item in value]
        return value


class StreamedResponse:
    """The response that the chunks of a stream make up."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[Any, dict[str, Any]] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        self._head |= {name: value for name, value in chunk.items()
                       if name not in ("choices", "object") and value is not None}
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                _join(self._choices.setdefault(_key(choice), {}), _as_message(choice))

    @property
    def is_finished(self) -> bool:
        """Whether there are choices, and all have ended."""
        return bool(self._choices) and all(
            choice.get("finish_reason") for choice in self._choices.values())

    @property
    def body(self) -> dict[str, Any]:
        """As it would have come without a stream."""
        return self._head | {"choices": list(self._choices.values())}


def _key(choice: dict[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _as_message(choice: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in choice.items() if name != "delta"}
    delta = choice.get("delta")
    return fields | {"message": delta} if isinstance(delta, dict) else fields


def _join(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Append texts and lists of a part to those of the whole."""
    for name, value in part.items():
        known = whole.get(name)
        if value is None:
            whole.setdefault(name, None)
        elif isinstance(known, str) and isinstance(value, str) and name not in _WHOLE:
            whole[name] = known + value
        elif isinstance(value, dict):
            if not isinstance(known, dict):
                known = whole[name] = {}
            _join(known, value)
        elif isinstance(value, list):
            whole[name] = _joined_lists(known if isinstance(known, list) else [], value)
        else:
            whole[name] = value


def _joined_lists(known: list[Any], value: list[Any]) -> list[Any]:
    """Items with an index, as tool calls have, are parts of the item with the same index."""
    found = list(known)
    for item in value:
        if not _is_indexed(item):
            found.append(item)
            continue
        same = [one for one in found if isinstance(one, dict) and one.get("index") == item["index"]]
        if not same:
            same = [{}]
            found += same
        _join(same[0], item)
    return found


def _is_indexed(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("index"), int)


def _nested(place: tuple[Any, ...], text: str) -> dict[str, Any]:
    """The object with this text at its place, whose numbers are those of items with an index."""
    found: Any = text
    for name in reversed(place):
        found = [found | {"index": name}] if isinstance(name, int) else {name: found}
    return dict(found)
