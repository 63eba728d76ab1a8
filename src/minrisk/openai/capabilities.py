"""The request fields that a server does not accept, learned from its errors.

Servers differ in small ways: newer models of OpenAI need `max_completion_tokens` and their own
temperature, other servers have no seed or no log-probabilities, and `n` may be refused, ignored or
limited. A request is first sent with all fields; if the error names a field, it is sent without it,
and if that works, so are all further requests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from minrisk._core.errors import Wording
from minrisk.openai.errors import BadRequestError, Detail

# in errors about unknown fields; a value that is out of range is for the user to fix
_UNKNOWN = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|forbidden|fixed|instead|only the default"
    r"|(?:not|n't) (?:be )?(?:supported?|allowed|permitted|available|recogni[sz]ed|accepted)"
    r"|cannot find|extra inputs", re.IGNORECASE)
_CHOICES = re.compile(
    r"""['"`]n['"`]|\bn (?:must|should|is|has|cannot|value|parameter)\b|\bn ?[=<>:]"""
    r"|\b(?:parameter|value of|value for) n\b|\bn_cmpl\b|candidate_?count"
    r"|(?:multiple|more than one|number of) (?:choices|completions)", re.IGNORECASE)
_WITHOUT = {
    "temperature": "the server refuses temperature={value}: {reason}; it uses its own temperature",
    "logprobs": "the server returns no log-probabilities: {reason}; responses have none",
    "seed": "the server accepts no seed: {reason}; samples are not repeatable",
    "top_logprobs": "the server refuses top_logprobs={value}: {reason}; it is left out",
}
# fields that a request for samples can do without
REPLACEABLE = frozenset({"max_tokens", "temperature", "logprobs", "seed"})
# whatever is wrong with their values
_ALWAYS_LEFT_OUT = ("logprobs", "seed", "top_logprobs", "grammar")


@dataclass
class Capabilities:
    """The capabilities of a server, shared by all requests to one model during a run."""

    unsupported_fields: frozenset[str] = frozenset()
    max_choices: int | None = None  # in one response, if fewer than were requested
    accepted: int = 0  # the largest n that worked
    notes: set[str] = field(default_factory=set)  # kinds of notes that were shown already

    @property
    def is_known(self) -> bool:
        """Whether a request has succeeded, so that others with the same fields will."""
        return self.accepted > 0


def without_fields(body: Mapping[str, Any], unsupported: Collection[str]) -> dict[str, Any]:
    """The body without these fields, or with their replacements."""
    left_out = {*unsupported, *(("top_logprobs",) if "logprobs" in unsupported else ())}
    fields = {name: value for name, value in body.items() if name not in left_out}
    if "max_tokens" in unsupported and "max_tokens" in body:
        fields["max_completion_tokens"] = body["max_tokens"]
    return fields


def unsupported_field(error: BadRequestError, candidates: Collection[str]) -> str | None:
    """The first of these fields that the error says is not accepted."""
    for name in sorted(candidates):
        if _names(error.detail, name) and (name in _ALWAYS_LEFT_OUT
                                         or _UNKNOWN.search(error.detail.text)):
            return name
    return None


def fewer_choices(error: BadRequestError, n: int) -> int:
    """The number of choices to request after n were refused: the limit in the error, or 1."""
    if error.detail.field != "n" and not _CHOICES.search(error.detail.text):
        return 1
    numbers = map(int, re.findall(r"\b\d{1,4}\b", error.detail.text))
    return max((number for number in numbers if 0 < number < n), default=1)


def note_on(name: str, value: Any, reason: str) -> str | None:
    """The note for the user about a field that was left out."""
    return Wording(_WITHOUT[name], value=value, reason=reason) if name in _WITHOUT else None


def _names(detail: Detail, name: str) -> bool:
    return detail.field == name or bool(re.search(rf"(?<!\w){name}(?!\w)", detail.text))
