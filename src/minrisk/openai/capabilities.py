"""What a server does not take, learned from how it refuses.

Protocols differ in small ways: OpenAI's newer models want `max_completion_tokens` and no other
temperature than their own, others know no seed or no log-probabilities, and `n` may be refused,
ignored or limited. A request is sent as it should be; where the refusal names a field, it is sent
without it, and only if that works the others are sent so too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from minrisk.openai.errors import Detail, RefusedError

# told of fields that a server does not know; a value that is out of range is the user's to mend
_UNKNOWN = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|forbidden|fixed|instead|only the default"
    r"|(?:not|n't) (?:be )?(?:supported?|allowed|permitted|available|recogni[sz]ed|accepted)"
    r"|cannot find|extra inputs", re.IGNORECASE)
_CHOICES = re.compile(
    r"""['"`]n['"`]|\bn (?:must|should|is|has|cannot|value|parameter)\b|\bn ?[=<>:]"""
    r"|\b(?:parameter|value of|value for) n\b|\bn_cmpl\b|candidate_?count"
    r"|(?:multiple|more than one|number of) (?:choices|completions)", re.IGNORECASE)
_WITHOUT = {
    "temperature": "the server refuses temperature={value}: {reason}; it samples with its own",
    "logprobs": "the server gives no log-probabilities: {reason}; samples have none",
    "seed": "the server takes no seed: {reason}; samples are not repeatable",
}
REPLACEABLE = frozenset({"max_tokens", *_WITHOUT})  # fields that a request can do without


@dataclass
class Capabilities:
    """What a server takes, shared by all requests to one model of it for as long as a run lasts."""

    refused: frozenset[str] = frozenset()  # fields
    max_choices: int | None = None  # in one answer, if fewer than were requested
    accepted: int = 0  # the largest n that worked
    notes: set[str] = field(default_factory=set)  # kinds of notes that the user got already

    @property
    def is_known(self) -> bool:
        """Whether a request has worked, so that others will that have its fields."""
        return self.accepted > 0


def without_fields(body: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """The body without these fields, or with what stands in for them."""
    fields = {name: value for name, value in body.items() if name not in refused}
    if "max_tokens" in refused and "max_tokens" in body:
        fields["max_completion_tokens"] = body["max_tokens"]
    return fields


def refused_field(error: RefusedError, candidates: Collection[str]) -> str | None:
    """Which of these fields the server does not take."""
    for name in sorted(candidates):
        if _names(error.detail, name) and (name in ("logprobs", "seed")  # do without in any case
                                         or _UNKNOWN.search(error.detail.text)):
            return name
    return None


def fewer_choices(error: RefusedError, n: int) -> int:
    """How many choices to request after so many were refused: the number it tells, or one."""
    if error.detail.field != "n" and not _CHOICES.search(error.detail.text):
        return 1
    numbers = map(int, re.findall(r"\b\d{1,4}\b", error.detail.text))
    return max((number for number in numbers if 0 < number < n), default=1)


def note_on(name: str, value: Any, reason: str) -> str | None:
    """What to tell the user about a field that was left out."""
    return _WITHOUT[name].format(value=value, reason=reason) if name in _WITHOUT else None


def _names(detail: Detail, name: str) -> bool:
    return detail.field == name or bool(re.search(rf"(?<!\w){name}(?!\w)", detail.text))
