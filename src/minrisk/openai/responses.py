"""Responses in OpenAI's protocol: choices, usage, and streams of server-sent events."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from minrisk._core.sampler import Sample
from minrisk._core.texts import valid_unicode
from minrisk._core.token_confidence import WINDOW, lowest_and_tail, self_certainty
from minrisk.openai.encoding import Mask
from minrisk.openai.errors import InvalidResponse

DONE = "[DONE]"  # the last event of a stream
_PLACE = ("item_id", "output_index", "content_index", "summary_index")  # of an event's text
LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")  # their types
_INCOMPLETE = {"length", "content_filter"}  # finish reasons of incomplete texts
_USAGE = ("prompt_tokens", "completion_tokens")
_MAX_COUNT = 2**53
_TOKEN_BYTES = 16  # mean bytes per token above which the reported usage cannot be complete
_MAX_EVENT = 1 << 22  # bytes
_MAX_CHOICES = 1 << 10  # choices in a stream
_LEAST_LOGPROB = -1e6  # of a listed token; some servers list impossible ones as -9999
_MAX_ITEMS = 1 << 20  # items of a list in a streamed choice
# strings that are not concatenated, because some servers repeat them in every event
_WHOLE = {"role", "id", "type", "name", "object", "finish_reason", "model", "index", "created"}


@dataclass(frozen=True)
class Choice:
    """One choice of a response, from the chat or completions interface; `raw` is its JSON."""

    raw: Mapping[str, Any]
    text: str | None = None  # None if it has no text usable as a sample
    finish_reason: str | None = None
    reasoning: str | None = None  # separate from the text
    logprob: float | None = None  # sum over its tokens
    length: int | None = None  # in tokens
    lowest_logprob: float | None = None
    tail_logprob: float | None = None
    certainty: float | None = None
    model: str | None = None  # if the choices of a pool are of several models
    weight: float = 1.0  # as a reference, beside those of other models

    @property
    def message(self) -> Mapping[str, Any]:
        """The message of a chat; empty for a completion."""
        message = self.raw.get("message")
        return message if isinstance(message, dict) else {}

    def sample(self, text: str) -> Sample:
        """A sample with this text, and the log-probability etc. of the choice."""
        return Sample(text, logprob=self.logprob, length=self.length,
                      finish_reason=self.finish_reason, reasoning=self.reasoning,
                      lowest_logprob=self.lowest_logprob, tail_logprob=self.tail_logprob,
                      certainty=self.certainty, model=self.model, weight=self.weight)

    @property
    def is_incomplete(self) -> bool:
        return self.finish_reason in _INCOMPLETE

    @property
    def problem(self) -> str:
        """The reason why there is no text, as a key to count by."""
        if self.message.get("tool_calls"):
            return "tool calls"
        if self.message.get("refusal"):
            return "refusals"
        return self.finish_reason or "without text"


def check_response(body: Any) -> InvalidResponse | None:
    """The problem of an invalid response; None if it is valid."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not all(map(_is_choice, choices)):
        is_error = isinstance(body, dict) and body.get("error") is not None
        return InvalidResponse("expected choices with text", is_temporary=is_error)
    return None if choices else InvalidResponse("the response has no choices", is_temporary=True)


def _is_choice(found: Any) -> bool:
    return isinstance(found, dict) and (isinstance(found.get("message"), dict)
                                        or isinstance(found.get("text"), str))


def read_choices(body: dict[str, Any], most: int | None = None, mask: Mask | None = None,
                 window: int = WINDOW) -> list[Choice]:
    """At most `most` choices of a valid response; `window` is a number of consecutive tokens."""
    choices = [_choice(raw, window) for raw in body["choices"][:most]]
    if mask is not None and mask.hides_content:
        choices = [_masked(choice, mask) for choice in choices]
    if len(choices) == 1 and choices[0].length is None:
        return [_with_length(choices[0], body)]
    return choices


def _masked(choice: Choice, mask: Mask) -> Choice:
    """The choice without the key also where the parts of its content make it up."""
    text = None if choice.text is None else mask.text(choice.text)
    if text == choice.text or not choice.message:
        return choice
    raw = {name: value for name, value in choice.raw.items() if name != "response"}
    return replace(choice, text=text, raw=raw | {"message": {**choice.message, "content": text}})


def _choice(raw: dict[str, Any], window: int) -> Choice:
    message = raw.get("message")
    message = message if isinstance(message, dict) else {"content": raw.get("text")}
    finish = _string(raw.get("finish_reason"))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return Choice(raw, _text(message, finish), finish, _string(reasoning),
                  **_of_tokens(raw.get("logprobs"), window))


def _text(message: dict[str, Any], finish: str | None) -> str | None:
    """The content, or None if a tool call, a refusal or a token limit left it empty."""
    content = message.get("content")
    if isinstance(content, list):  # content parts; some may be reasoning
        content = "".join(part["text"] for part in content if isinstance(part, dict)
                          and part.get("type") == "text" and isinstance(part.get("text"), str))
    if not isinstance(content, str):
        return None
    if not content and (finish in _INCOMPLETE or message.get("tool_calls")
                        or message.get("refusal")):
        return None
    return valid_unicode(content)


def _string(found: Any) -> str | None:
    return valid_unicode(found) if isinstance(found, str) else None


def _of_tokens(found: Any, window: int) -> dict[str, Any]:
    """What the tokens of a choice say, in the chat or completions format; empty without tokens."""
    if not isinstance(found, dict):
        return {}
    content = found.get("content")
    tokens = [token if isinstance(token, dict) else {} for token in content] if isinstance(
        content, list) else []
    listed = found.get("token_logprobs") or [token.get("logprob") for token in tokens]
    if not isinstance(listed, list) or not listed:
        return {}
    made: dict[str, Any] = {"length": len(listed)}
    total = math.nan
    if all(isinstance(value, int | float) for value in listed):
        with suppress(OverflowError):  # an integer that does not fit into a double
            listed = [*map(float, listed)]
            total = sum(listed)
    if not math.isfinite(total) or total > 0:  # above 0, they are none of probabilities
        return made
    lowest, tail = lowest_and_tail(listed, window)
    top = found.get("top_logprobs") or [token.get("top_logprobs") for token in tokens]
    return made | {"logprob": total, "lowest_logprob": lowest, "tail_logprob": tail,
                   "certainty": self_certainty([*map(_top_logprobs, top)]) if isinstance(top, list)
                   else None}


def _top_logprobs(found: Any) -> list[float]:
    """The log-probabilities of the likeliest tokens of a position, in either format."""
    if isinstance(found, list):
        found = {place: one.get("logprob") for place, one in enumerate(found)
                 if isinstance(one, dict)}
    values = found.values() if isinstance(found, dict) else ()
    return [float(value) for value in values
            if isinstance(value, int | float) and _LEAST_LOGPROB <= value <= 0]


def _with_length(choice: Choice, body: dict[str, Any]) -> Choice:
    """The only choice of a response, with its length from the usage, minus reasoning tokens."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    total = _count(usage.get("completion_tokens"))
    hidden = _count(reasoning) if reasoning is not None else 0
    if total is None or hidden is None or hidden > total or (
            choice.reasoning and not hidden):
        return choice
    return replace(choice, length=total - hidden)


def read_usage(body: dict[str, Any], choices: Sequence[Choice]) -> dict[str, int] | None:
    """Tokens of the prompt and of all choices; None if they are not known.

    llama.cpp counts only the tokens of its first choice.
    """
    usage = body.get("usage")
    found = {name: _count(usage.get(name)) for name in _USAGE} if isinstance(usage, dict) else {}
    counts = {name: count for name, count in found.items() if count is not None}
    if "completion_tokens" in counts:
        lengths = [choice.length for choice in choices]
        if None in lengths and _is_of_some(counts["completion_tokens"], body, choices):
            return None
        counts["completion_tokens"] = max(counts["completion_tokens"],
                                          sum(length or 0 for length in lengths))
    return counts or None


def _is_of_some(tokens: int, body: dict[str, Any], choices: Sequence[Choice]) -> bool:
    """Whether the count cannot cover all choices."""
    if len(choices) > 1 and "timings" in body:  # llama.cpp
        return True
    texts = [choice.text for choice in choices if choice.text]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return len(texts) > 1 and (tokens < len(texts) or size > tokens * _TOKEN_BYTES)


def total_usage(parts: Iterable[Mapping[str, int] | None]) -> dict[str, int] | None:
    """The sum of the usage of several responses; None if it is unknown for one of them."""
    total: dict[str, int] = {}
    for part in parts:
        if part is None:
            return None
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total or None


def _count(found: Any) -> int | None:
    """A plausible number of tokens, or None."""
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MAX_COUNT
    return found if is_count else None


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The data of each server-sent event; comments and event names are dropped.

    Raises:
        ValueError: if an event is too large.
    """
    lines: list[str] = []
    size = 0
    async for line in _lines(chunks):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
            size += len(line)
            if size > _MAX_EVENT:
                raise ValueError(f"an event has more than {_MAX_EVENT:,} characters")
        elif not line and lines:
            yield "\n".join(lines)
            lines, size = [], 0
    if lines:  # some servers omit the final empty line
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
    """Masks the key in the chunks of a stream, even if it is split between chunks.

    The end of a text that may be the beginning of the key is held back until more text arrives.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._waiting: dict[tuple[Any, ...], str] = {}  # (choice, *path of the text) -> held back
        self._deltas: dict[tuple[Any, ...], dict[str, Any]] = {}  # events of texts held back
        self._last: dict[str, Any] = {}  # the last chunk

    def masked(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunk, or the event of `/v1/responses`, after those that were held back for it."""
        if not self._mask.hides_content:
            return [chunk]
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return self._events(chunk)
        self._last = chunk
        return [chunk | {"choices": [self._choice(choice) if isinstance(choice, dict) else choice
                                     for choice in choices]}]

    def _events(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        place = tuple(event.get(name) for name in ("type", *_PLACE))
        if isinstance(delta := event.get("delta"), str):
            before = self._deltas.pop(place, {}).get("delta", "")
            shown, waiting = self._mask.divided(before + delta)
            if waiting:
                self._deltas[place] = event | {"delta": waiting}
            return [event | {"delta": shown}]
        ended = [held for held, one in self._deltas.items()
                 if event.get("item_id") in (None, one.get("item_id"))]
        return [*map(self._deltas.pop, ended), event]

    @property
    def rest(self) -> dict[str, Any] | None:
        """A final chunk with the text that is still held back at the end of a stream."""
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
            return [self._item(item, place) for item in value]
        return value

    def _item(self, item: Any, place: tuple[Any, ...]) -> Any:
        if _is_indexed(item):
            return self._part(item, (*place, item["index"]))
        is_text = place[1:] == ("delta", "content") and isinstance(item, dict)
        return self._part(item, (*place, None)) if is_text else item


def error_of_event(event: Mapping[str, Any]) -> Any:
    """The error that an event reports; None if it reports none."""
    if event.get("type") == "error":  # of `/v1/responses`, with its fields beside the type
        return event.get("error") or {name: event.get(name) for name in ("code", "message")}
    response = event.get("response") if event.get("type") == "response.failed" else None
    return (response.get("error") or {"message": "the response has failed"}
            if isinstance(response, dict) else event.get("error"))


class StreamedResponse:
    """Assembles the chunks of a stream to a response.

    Raises:
        ValueError: if there are too many choices, or too many items in a list.
    """

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[Any, dict[str, Any]] = {}
        self._response: Any = None  # of `/v1/responses`, whose last event has it whole

    def add(self, chunk: dict[str, Any]) -> None:
        if chunk.get("type") in LAST_EVENTS:
            self._response = chunk.get("response")
        self._head |= {name: value for name, value in chunk.items()
                       if name not in ("choices", "object") and value is not None}
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                _join(self._choices.setdefault(_key(choice), {}), _as_message(choice))
        if len(self._choices) > _MAX_CHOICES:
            raise ValueError(f"more than {_MAX_CHOICES:,} choices")

    @property
    def is_finished(self) -> bool:
        """Whether there are choices and all have a finish reason."""
        return self._response is not None or (bool(self._choices) and all(
            choice.get("finish_reason") for choice in self._choices.values()))

    @property
    def body(self) -> Any:
        """The body of the equivalent response without streaming."""
        if self._response is not None:
            return self._response
        return self._head | {"choices": list(self._choices.values())}


def _key(choice: dict[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _as_message(choice: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in choice.items() if name != "delta"}
    delta = choice.get("delta")
    return fields | {"message": delta} if isinstance(delta, dict) else fields


def _join(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Append the texts and lists of a delta to those of the whole."""
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
    """Merge items by their `index`, as tool calls require; append the others."""
    by_index = ({item["index"]: item for item in known if _is_indexed(item)}
                if any(map(_is_indexed, value)) else {})
    for item in value:
        if not _is_indexed(item):
            known.append(item)
            continue
        if item["index"] not in by_index:
            known.append(by_index.setdefault(item["index"], {}))
        _join(by_index[item["index"]], item)
    if len(known) > _MAX_ITEMS:
        raise ValueError(f"more than {_MAX_ITEMS:,} items in a list")
    return known


def _is_indexed(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("index"), int)


def _nested(place: tuple[Any, ...], text: str) -> dict[str, Any]:
    """A nested object with this text at `place`; integers in it are the `index` of list items, and
    None is a content part.
    """
    found: Any = text
    for name in reversed(place):
        found = ([found | {"index": name}] if isinstance(name, int) else
                 [found | {"type": "text"}] if name is None else {name: found})
    return dict(found)
