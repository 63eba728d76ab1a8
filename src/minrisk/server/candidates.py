"""Samples as they are compared: without reasoning, JSON by its values, tool calls by their names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minrisk._core.sampler import Sample
from minrisk.metrics.votes.json_match import JsonMatch, canonical
from minrisk.openai.responses import Choice

_END_OF_REASONING = "</think>"  # some servers leave it in the content
_FILTERED = "content_filter"


class _ToolMatch(JsonMatch):
    """Compares calls of the same tools field by field, and counts equal calls as votes."""

    is_vote = True


TOOL_METRIC = _ToolMatch(by="field")


@dataclass(frozen=True)
class Candidate:
    """A choice of the upstream, and the text that stands for it."""

    choice: Choice
    text: str
    tools: tuple[str, ...] | None  # the names of the tools that it calls, if it calls any

    @property
    def raw(self) -> dict[str, Any]:
        return dict(self.choice.raw)

    @property
    def is_truncated(self) -> bool:
        return self.choice.finish_reason == "length"

    @property
    def sample(self) -> Sample:
        return Sample(self.text, logprob=self.choice.logprob, length=self.choice.length,
                      finish_reason=self.choice.finish_reason, reasoning=self.choice.reasoning)


def read_candidates(choices: Sequence[Choice], as_json: bool) -> list[Candidate]:
    """The candidates that can win: neither filtered nor empty."""
    found = (_candidate(choice, as_json) for choice in choices)
    return [candidate for candidate in found if candidate is not None]


def _candidate(choice: Choice, as_json: bool) -> Candidate | None:
    message = choice.raw.get("message")
    message = message if isinstance(message, dict) else {}
    calls = _calls(message)
    if choice.finish_reason == _FILTERED:
        return None
    if calls:
        return Candidate(choice, _as_text(calls), tuple(call["name"] for call in calls))
    text = choice.text if choice.text and choice.text.strip() else message.get("refusal")
    if not isinstance(text, str) or not text.strip():
        return None
    text = text.rpartition(_END_OF_REASONING)[2].strip() or text
    return Candidate(choice, (canonical(text) if as_json else None) or text, None)


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Names and arguments of the called tools, in either form of the protocol."""
    found = message.get("tool_calls")
    functions = [call.get("function") or call.get("custom") for call in found
                 if isinstance(call, dict)] if isinstance(found, list) else []
    functions = functions or [message.get("function_call")]
    return [{"name": str(one.get("name")), "arguments": one.get("arguments", one.get("input"))}
            for one in functions if isinstance(one, dict)]


def _as_text(calls: list[dict[str, Any]]) -> str:
    parts = []
    for call in calls:
        given = call["arguments"]
        given = given if isinstance(given, str) else json.dumps(given)
        parts.append(f'{{"name":{json.dumps(call["name"])},'
                     f'"arguments":{canonical(given) or json.dumps(given)}}}')
    return canonical(parts[0] if len(parts) == 1 else f"[{','.join(parts)}]") or ""


@dataclass(frozen=True)
class CandidatePool:
    """The candidates that are compared with each other, and the others, in input order."""

    compared: list[Candidate]
    others: list[Candidate]

    @property
    def calls_tools(self) -> bool:
        return self.compared[0].tools is not None


def pool_of(candidates: Sequence[Candidate], prefer_finished: bool) -> CandidatePool:
    """Keep the majority kind: text, or one sequence of tool names; truncated ones come last."""
    finished = [c for c in candidates if not (prefer_finished and c.is_truncated)]
    finished = finished or list(candidates)
    calling = _most_frequent([c.tools is not None for c in finished])
    kind = [c for c in finished if (c.tools is not None) == calling]
    tools = _most_frequent([c.tools for c in kind])
    compared = [c for c in kind if c.tools == tools]
    is_compared = set(map(id, compared))
    return CandidatePool(compared, [c for c in candidates if id(c) not in is_compared])


def _most_frequent(values: Sequence[Any]) -> Any:
    """The most frequent value; the first of several."""
    return Counter(values).most_common(1)[0][0]
