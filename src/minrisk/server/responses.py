"""From samples to the answer: a completion in the upstream's form, whole or in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minrisk._core.arrays import finite_or_none
from minrisk._core.segment import Ranking
from minrisk._core.strategy import Strategy
from minrisk.io.writers import uncertainty_fields
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.responses import total_usage
from minrisk.server.candidates import Candidate
from minrisk.server.choosing import RankedSegment
from minrisk.server.client_request import ClientRequest

_DETAILS = ("prompt_tokens_details", "completion_tokens_details")
_IDS = {"chat": "chatcmpl", "completions": "cmpl"}
_OBJECTS = {"chat": "chat.completion", "completions": "text_completion"}
_MESSAGE_PARTS = ("role", "content", "refusal", "tool_calls")  # these have chunks of their own
END = b"data: [DONE]\n\n"  # of a stream
_HEADERS = ("samples", "distinct", "utility", "confidence", "signature", "abstained",
            "passed_through")


@dataclass(frozen=True)
class RankedCandidates:
    """The candidates of a request, best first, and how they were ranked."""

    order: list[Candidate]
    compared: list[Candidate]  # the ranked ones, in input order
    distinct: int
    ranked: RankedSegment
    signature: str
    strategy: Strategy
    abstains: bool = False  # the samples disagree too much for an answer
    abstain_text: str | None = None  # the answer then; a refusal unless given

    @property
    def ranking(self) -> Ranking:
        return self.ranked.ranking

    @property
    def judge_usage(self) -> Mapping[str, int]:
        return self.ranked.judge_usage


def completion(request: ClientRequest, parts: Sequence[CompletionResponse],
               ranked: RankedCandidates | None, requested: int) -> dict[str, Any]:
    """The body of the answer; without a choice it is the upstream's own first answer."""
    part = parts[0] if ranked is None else _part_of(parts, ranked.order[0])
    raws = ([choice.raw for choice in part.choices][:request.n] if ranked is None
            else [candidate.raw for candidate in ranked.order[:request.n]])
    body = {key: value for key, value in part.body.items() if key not in ("choices", "usage")}
    body = {"id": f"{_IDS[request.api]}-{secrets.token_hex(12)}", "object": _OBJECTS[request.api],
            "created": int(time.time()), "model": request.model} | body
    if ranked is not None and ranked.abstains:
        raws = [_abstention(request, ranked.ranking, ranked.abstain_text)] * len(raws)
    body["choices"] = [_numbered(raw, index, request) for index, raw in enumerate(raws)]
    usage = _with_judges(summed_usage(parts), {} if ranked is None else ranked.judge_usage)
    if usage is not None:
        body["usage"] = usage
    return body | {"minrisk": summary(request, parts, ranked, requested)}


def _part_of(parts: Sequence[CompletionResponse], candidate: Candidate) -> CompletionResponse:
    return next(part for part in parts if any(c is candidate.choice for c in part.choices))


def _abstention(request: ClientRequest, ranking: Ranking, text: str | None) -> dict[str, Any]:
    """A choice without an answer: this text, or the form in which OpenAI's models refuse."""
    if request.api != "chat":
        answer: dict[str, Any] = {"text": text or ""}
    elif text is not None:
        answer = {"message": {"role": "assistant", "content": text}}
    else:
        answer = {"message": {"role": "assistant", "content": None,
                              "refusal": reason_to_abstain(ranking)}}
    return answer | {"logprobs": None, "finish_reason": "stop"}


def reason_to_abstain(ranking: Ranking) -> str:
    assert ranking.uncertainty is not None
    return ("The samples disagree: the largest cluster of similar ones has "
            f"{ranking.uncertainty.largest:.0%} of them.")


def _numbered(raw: Mapping[str, Any], index: int, request: ClientRequest) -> dict[str, Any]:
    """The upstream's choice with a new index, without log-probabilities that the client did not
    request.
    """
    fields = dict(raw) | {"index": index}
    if "logprobs" in request.defaults and not request.given.get("logprobs"):
        fields["logprobs"] = None
    return fields


def summary(request: ClientRequest, parts: Sequence[CompletionResponse],
            ranked: RankedCandidates | None, requested: int) -> dict[str, Any]:
    """The field `minrisk` of the answer: sample counts, and how the choice was made."""
    found: dict[str, Any] = {"samples": sum(len(part.choices) for part in parts),
                             "requested": requested}
    if request.passes_through:
        found["passed_through"] = True  # there was nothing to choose from
    if ranked is None:
        return found
    ranking = ranked.ranking
    found |= {"distinct": ranked.distinct, "signature": ranked.signature,
              "utility": shown(ranking.utility[ranking.best])}
    found |= measurements(ranked.ranked) | judge_usage_field(ranked.judge_usage)
    if ranked.abstains:
        found["abstained"] = True
    if request.return_candidates:
        found["candidates"] = [_numbered(candidate.raw, index, request)
                               for index, candidate in enumerate(ranked.order)]
    return found


def measurements(ranked: RankedSegment) -> dict[str, Any]:
    """The answer and its votes, if the metric votes; confidence and uncertainty, if measured."""
    ranking, found = ranked.ranking, dict(ranked.details)
    if (confidence := ranking.confidence) is not None:
        found["confidence"] = shown(confidence.probability)
        if confidence.share is not None and confidence.interval is not None:
            found |= {"share": shown(confidence.share),
                      "interval": [shown(end) for end in confidence.interval]}
        if confidence.reason is not None:
            found["no_confidence"] = confidence.reason
    if ranking.uncertainty is not None:
        found["uncertainty"] = uncertainty_fields(ranking.uncertainty)
    return found


def shown(number: float) -> float | None:
    """A number without the digits that are rounding; None where it is none."""
    return finite_or_none(float(f"{number:.12g}"))


def judge_usage_field(usage: Mapping[str, int]) -> dict[str, Any]:
    """The requests and tokens of judges as a field, if there were some; as `decode` has it."""
    return {"judge_usage": dict(usage)} if usage else {}


def headers_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The summary as response headers."""
    found = body["minrisk"]
    return {f"x-minrisk-{name.replace('_', '-')}": _header(found[name])
            for name in _HEADERS
            if found.get(name) is not None}


def _header(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)[:1000]
    text = text.lower() if isinstance(value, bool) else text
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def _with_judges(usage: dict[str, Any] | None,
                 judges: Mapping[str, int]) -> dict[str, Any] | None:
    """The usage with the tokens of judges; None if one of them is unknown."""
    tokens = {name: count for name, count in judges.items() if name != "requests"}
    if usage is None or (judges and not tokens):
        return None
    sums = {name: usage.get(name, 0) + count for name, count in tokens.items()}
    return usage | sums | {"total_tokens": usage["total_tokens"] + sum(tokens.values())}


def summed_usage(parts: Sequence[CompletionResponse]) -> dict[str, Any] | None:
    """The sum of the token counts; None if any answer has none."""
    counts = total_usage(part.usage for part in parts)
    if counts is None:
        return None
    found: dict[str, Any] = dict(counts) | {"total_tokens": sum(counts.values())}
    for name in _DETAILS:
        details = [part.body["usage"].get(name) for part in parts]
        total = _summed([one for one in details if isinstance(one, dict)])
        if total:
            found[name] = total
    return found


def _summed(details: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in details:
        for name, value in one.items():
            if isinstance(value, int) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total


def chunks(request: ClientRequest, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The completion as chunks of a stream."""
    head = {key: value for key, value in body.items()
            if key not in ("choices", "usage", "minrisk", "object")}
    head["object"] = "chat.completion.chunk" if request.api == "chat" else "text_completion"
    usage = {"usage": None} if request.include_usage else {}
    events = [head | {"choices": [fields]} | usage for choice in body["choices"]
              for fields in (_deltas(choice) if request.api == "chat" else [_text_chunk(choice)])]
    events[-1]["minrisk"] = body["minrisk"]  # beside the last finish_reason
    yield from events
    if request.include_usage:
        yield head | {"choices": [], "usage": body.get("usage")}


def event(content: bytes) -> bytes:
    """An event of a stream, with this JSON."""
    return b"data: " + content + b"\n\n"


def _deltas(choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Chunks with role, content, refusal, tool calls and finish_reason, in this order."""
    message = choice.get("message") or {"content": choice.get("text")}
    index = choice["index"]
    others = {key: value for key, value in message.items()
              if key not in _MESSAGE_PARTS and value is not None}

    def chunk(delta: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
        return {"index": index, "delta": delta, "finish_reason": finish} | more

    start = None if message.get("content") is None else ""
    yield chunk({"role": message.get("role", "assistant"), "content": start} | others)
    if message.get("content"):
        logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        yield chunk({"content": message["content"]}, **logprobs)
    if message.get("refusal"):
        yield chunk({"refusal": message["refusal"]})
    calls = message.get("tool_calls")
    for number, one in enumerate(calls if isinstance(calls, list) else []):
        yield chunk({"tool_calls": [one | {"index": number} if isinstance(one, dict) else one]})
    rest = {key: value for key, value in choice.items()
            if key not in ("index", "message", "finish_reason", "logprobs")}
    yield chunk({}, choice.get("finish_reason") or "stop", **rest)


def _text_chunk(choice: Mapping[str, Any]) -> dict[str, Any]:
    return dict(choice) | {"finish_reason": choice.get("finish_reason") or "stop"}
