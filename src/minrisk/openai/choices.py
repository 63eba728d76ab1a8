"""Responses in OpenAI's protocol: choices, with or without text, and usage."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from minrisk._core.unicode import valid_unicode
from minrisk.openai.client import InvalidResponse

_INCOMPLETE = {"length", "content_filter"}  # finish reasons of incomplete texts
_USAGE = ("prompt_tokens", "completion_tokens")
_MAX_COUNT = 2**53
_TOKEN_BYTES = 16  # more on average is no text of these tokens


@dataclass(frozen=True)
class Choice:
    """One choice of a response, from the chat or completions interface; `raw` is its JSON."""

    raw: Mapping[str, Any]
    text: str | None = None  # None if it has no text that could be a sample
    finish_reason: str | None = None
    reasoning: str | None = None  # separate from the text
    logprob: float | None = None  # the sum over its tokens
    length: int | None = None  # in tokens

    @property
    def is_incomplete(self) -> bool:
        return self.finish_reason in _INCOMPLETE

    @property
    def problem(self) -> str:
        """The reason why there is no text, as a key for a Counter."""
        message = self.raw.get("message")
        message = message if isinstance(message, dict) else {}
        if message.get("tool_calls"):
            return "tool calls"
        if message.get("refusal"):
            return "refusals"
        return self.finish_reason or "without text"


def check_response(body: Any) -> InvalidResponse | None:
    """The problem of a response without valid choices; None if it is valid."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not all(map(_is_choice, choices)):
        is_error = isinstance(body, dict) and body.get("error") is not None
        return InvalidResponse("wanted choices with text", is_temporary=is_error)
    return None if choices else InvalidResponse("the response has no choices", is_temporary=True)


def _is_choice(found: Any) -> bool:
    return isinstance(found, dict) and (isinstance(found.get("message"), dict)
                                        or isinstance(found.get("text"), str))


def read_choices(body: dict[str, Any]) -> list[Choice]:
    """The choices of a valid response."""
    choices = list(map(_choice, body["choices"]))
    if len(choices) == 1 and choices[0].length is None:
        return [_with_length(choices[0], body)]
    return choices


def _choice(raw: dict[str, Any]) -> Choice:
    message = raw.get("message")
    message = message if isinstance(message, dict) else {"content": raw.get("text")}
    finish = _string(raw.get("finish_reason"))
    logprob, length = _of_tokens(raw.get("logprobs"))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return Choice(raw, _text(message, finish), finish, _string(reasoning), logprob, length)


def _text(message: dict[str, Any], finish: str | None) -> str | None:
    """The content; None if it is empty because of a tool call, a refusal or a limit."""
    content = message.get("content")
    if isinstance(content, list):  # parts, of which some are reasoning
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


def _of_tokens(found: Any) -> tuple[float | None, int | None]:
    """Log-probability and number of tokens, if given, in the format of either interface."""
    if not isinstance(found, dict):
        return None, None
    tokens = found.get("content")
    listed = found.get("token_logprobs") or [
        token.get("logprob") if isinstance(token, dict) else None
        for token in (tokens if isinstance(tokens, list) else ())]
    if not isinstance(listed, list) or not listed:
        return None, None
    total = math.nan
    if all(isinstance(value, int | float) for value in listed):
        with suppress(OverflowError):  # integers beyond the range of a double
            total = float(sum(listed))
    return total if math.isfinite(total) else None, len(listed)


def _with_length(choice: Choice, body: dict[str, Any]) -> Choice:
    """The only choice, with its length from the usage without the reasoning tokens."""
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


def read_usage(body: dict[str, Any], choices: Sequence[Choice]) -> Counter[str] | None:
    """Tokens of the prompt and of all choices; None where they are not known.

    llama.cpp counts the tokens of its first choice alone.
    """
    usage = body.get("usage")
    found = {name: _count(usage.get(name)) for name in _USAGE} if isinstance(usage, dict) else {}
    counts = Counter({name: count for name, count in found.items() if count is not None})
    if "completion_tokens" in counts:
        lengths = [choice.length for choice in choices]
        if None in lengths and _is_of_some(counts["completion_tokens"], body, choices):
            return None
        counts["completion_tokens"] = max(counts["completion_tokens"],
                                          sum(length or 0 for length in lengths))
    return counts or None


def _is_of_some(tokens: int, body: dict[str, Any], choices: Sequence[Choice]) -> bool:
    """Whether so many tokens cannot be those of all choices."""
    if len(choices) > 1 and "timings" in body:  # llama.cpp's, which are of one choice too
        return True
    texts = [choice.text for choice in choices if choice.text]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return len(texts) > 1 and (tokens < len(texts) or size > tokens * _TOKEN_BYTES)


def total_usage(parts: Iterable[Counter[str] | None]) -> dict[str, int] | None:
    """The usage of several responses; None if one of them has none."""
    total: Counter[str] = Counter()
    for part in parts:
        if part is None:
            return None
        total.update(part)
    return dict(total) or None


def _count(found: Any) -> int | None:
    """A plausible number of tokens, or None."""
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MAX_COUNT
    return found if is_count else None
