"""Responses in OpenAI's format: completions, whole or in chunks, and errors."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minrisk._core.errors import MinriskError
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.encoding import Encoder, encoded
from minrisk.openai.errors import ErrorResponse, error_response
from minrisk.openai.responses import total_usage
from minrisk.server.choosing import Chosen

if TYPE_CHECKING:
    from minrisk.server.requests import ClientRequest

END = b"data: [DONE]\n\n"  # the last event of a stream
NO_RETRY = {"x-should-retry": "false"}  # minrisk has retried already
ABSTAINED = "abstained"  # error code of an abstention, which is not a failure
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")
_IDS = {"chat": "chatcmpl", "completions": "cmpl"}
_OBJECTS = {"chat": "chat.completion", "completions": "text_completion"}
_MESSAGE_PARTS = ("role", "content", "refusal", "tool_calls")  # each has its own chunk
_HEADERS = ("samples", "distinct", "utility", "confidence", "calibrated", "signature", "abstained",
            "passed_through")
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
          429: "rate_limit_error"}
_PASSED_HEADERS = ("retry-after", "retry-after-ms")


@dataclass(frozen=True)
class Completion:
    """The answer to a request for completions, to be sent whole or in chunks."""

    request: ClientRequest
    head: Mapping[str, Any]  # `id`, `model` and the upstream's other top-level fields
    choices: list[dict[str, Any]]
    usage: Mapping[str, Any] | None
    summary: Mapping[str, Any]  # the field `minrisk`: sample counts, and how the choice was made
    raw: bytes | None = None  # the upstream's, if they are the answer but for the field `minrisk`

    @property
    def body(self) -> dict[str, Any]:
        usage = {} if self.usage is None else {"usage": self.usage}
        return {**self.head, "choices": self.choices, **usage, "minrisk": self.summary}

    @property
    def headers(self) -> dict[str, str]:
        """The summary as response headers."""
        return {f"x-minrisk-{name.replace('_', '-')}": _header(self.summary[name])
                for name in _HEADERS if self.summary.get(name) is not None}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The completion as chunks of a stream."""
        is_chat = self.request.api == "chat"
        head = {**self.head, "object": "chat.completion.chunk" if is_chat else "text_completion"}
        usage = {"usage": None} if self.request.include_usage else {}
        events = [head | {"choices": [fields]} | usage for choice in self.choices
                  for fields in (_deltas(choice) if is_chat else [_text_chunk(choice)])]
        events[-1]["minrisk"] = self.summary  # beside the last finish_reason
        yield from events
        if self.request.include_usage:
            yield head | {"choices": [], "usage": self.usage}


def completion(request: ClientRequest, parts: Sequence[CompletionResponse], chosen: Chosen | None,
               usage: dict[str, Any] | None, abstain_text: str | None,
               failed_models: Mapping[str, int]) -> Completion:
    """The answer with the best choices; if `chosen` is None, the upstream's first answer."""
    sources = [(choice.raw, part) for part in parts for choice in part.choices]
    if chosen is None:
        part, raws = parts[0], [choice.raw for choice in parts[0].choices]
    else:
        part, raws = sources[chosen.order[0]][1], [sources[index][0] for index in chosen.order]
    choices = raws[:request.n]
    if chosen is not None and chosen.text is not None:
        choices = [_answer(request, chosen.text), *choices][:request.n]
    summary: dict[str, Any] = {"samples": len(sources), "requested": request.samples}
    models = Counter(choice.model for part in parts for choice in part.choices if choice.model)
    summary |= {name: dict(counts) for name, counts in (
        ("models", models), ("failed_models", failed_models)) if counts}
    if request.passes_through:
        summary["passed_through"] = True
    if chosen is not None:
        summary |= chosen.fields
        if chosen.disagreement is not None:
            summary["abstained"] = True
            choices = [_abstention(request, chosen.disagreement, abstain_text)] * len(choices)
        if request.return_candidates:
            summary["candidates"] = _numbered(raws, request)
    head = {"id": f"{_IDS[request.api]}-{secrets.token_hex(12)}", "object": _OBJECTS[request.api],
            "created": int(time.time()), "model": request.model}
    head |= {name: value for name, value in part.body.items()
             if name not in ("choices", "usage", "minrisk")}
    usage = _with_judges(usage, summary.get("judge_usage", {}))
    listed = _numbered(choices, request)
    raw = part.raw if request.passes_through and _is_unchanged(part, head, listed, usage) else None
    return Completion(request, head, listed, usage, summary, raw)


def _is_unchanged(part: CompletionResponse, head: Mapping[str, Any], choices: list[dict[str, Any]],
                  usage: Mapping[str, Any] | None) -> bool:
    """Whether the upstream's response has all of this, and no more."""
    body = part.body
    return ("minrisk" not in body and body.keys() - {"choices", "usage"} == head.keys()
            and (usage is None) == (body.get("usage") is None) and body["choices"] == choices)


def _abstention(request: ClientRequest, reason: str, text: str | None) -> dict[str, Any]:
    """A choice that abstains: with the given text, or as a refusal in OpenAI's format."""
    if request.api != "chat" or text is not None:
        return _answer(request, text or "")
    return {"message": {"role": "assistant", "content": None, "refusal": reason},
            "logprobs": None, "finish_reason": "stop"}


def _answer(request: ClientRequest, text: str) -> dict[str, Any]:
    """A choice with a text that is not the upstream's."""
    answer: dict[str, Any] = ({"message": {"role": "assistant", "content": text}}
                              if request.api == "chat" else {"text": text})
    return answer | {"logprobs": None, "finish_reason": "stop"}


def _numbered(raws: Sequence[Mapping[str, Any]], request: ClientRequest) -> list[dict[str, Any]]:
    """The upstream's choices with new indices, without log-probabilities that the client did not
    request.
    """
    is_ours = "logprobs" in request.defaults and not request.given.get("logprobs")
    changes = {"logprobs": None} if is_ours else {}
    return [{**raw, "index": index, **changes} for index, raw in enumerate(raws)]


def _header(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)[:1000]
    text = text.lower() if isinstance(value, bool) else text
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def _with_judges(usage: dict[str, Any] | None,
                 judges: Mapping[str, int]) -> dict[str, Any] | None:
    """The usage plus the tokens of judges; None if either is unknown."""
    tokens = {name: count for name, count in judges.items() if name != "requests"}
    if usage is None or (judges and not tokens):
        return None
    sums = {name: usage.get(name, 0) + count for name, count in tokens.items()}
    return usage | sums | {"total_tokens": usage["total_tokens"] + sum(tokens.values())}


def summed_usage(parts: Sequence[CompletionResponse]) -> dict[str, Any] | None:
    """The sum of the token counts; None if any answer lacks them."""
    counts = total_usage(part.usage for part in parts)
    if counts is None:
        return None
    usage: dict[str, Any] = dict(counts) | {"total_tokens": sum(counts.values())}
    for name in _DETAILS:
        details = [part.body["usage"].get(name) for part in parts]
        total = _summed([one for one in details if isinstance(one, dict)])
        if total:
            usage[name] = total
    return usage


def _summed(details: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in details:
        for name, value in one.items():
            if isinstance(value, int) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total


def event(content: bytes, name: str | None = None) -> bytes:
    """A server-sent event with this JSON."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + content + b"\n\n"


class CompletionFormat:
    """Writes the answer to a request for completions; one of other routes is a subclass."""

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or Encoder()

    async def whole(self, answer: Completion) -> bytes:
        """The body of an answer that is not streamed."""
        if answer.raw is None:
            return await self._encoder.encode(answer.body)
        end = answer.raw.rindex(b"}")  # the upstream's answer, with one more field
        return b'%b, "minrisk": %b}' % (answer.raw[:end], encoded(answer.summary))

    async def relayed(self, chunk: Mapping[str, Any]) -> list[bytes]:
        """The events for a chunk of the backend's stream."""
        return [event(encoded(chunk))]

    async def last(self, answer: Completion, is_relayed: bool) -> list[bytes]:
        """The events of a stream with an answer, or the last ones if its chunks were relayed."""
        chunks = () if is_relayed else answer.chunks()
        return [*[event(await self._encoder.encode(chunk)) for chunk in chunks], END]

    async def failure(self, error: ApiError) -> list[bytes]:
        """The last events of a stream that fails after its status was sent."""
        return [event(error.content.encode())]


def _deltas(choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of a chat choice: role, content, refusal, tool calls, finish_reason."""
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


# errors


class ApiError(Exception):
    """An error that is sent to the client, with its HTTP status."""

    def __init__(self, status: int, message: str, *, param: str | None = None,
                 code: str | None = None, headers: Mapping[str, str] | None = None,
                 content: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        self._content = content  # the upstream's error body, forwarded unchanged

    def __reduce__(self) -> tuple[Any, ...]:
        return _api_error, (self.status, str(self), self.param, self.code, self.headers,
                            self._content)

    @property
    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500
                          else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param,
                          "code": self.code}}

    @property
    def content(self) -> str:
        return json.dumps(self.body) if self._content is None else self._content


def _api_error(status: int, message: str, param: str | None, code: str | None,
               headers: Mapping[str, str], content: str | None) -> ApiError:
    return ApiError(status, message, param=param, code=code, headers=headers, content=content)


def upstream_error(error: MinriskError) -> ApiError:
    """The error for the client, without the upstream's address; 4xx errors are forwarded."""
    response = error_response(error)
    if response is None:
        return ApiError(502, "the upstream did not answer; try again later",
                        code="upstream_unavailable", headers=NO_RETRY)
    if not 400 <= response.status < 500:
        return ApiError(502, f"the upstream answered with status {response.status}; "
                        "try again later", code="upstream_error", headers=NO_RETRY)
    if response.status in (401, 403, 407):  # they concern the server's key, not the client's
        return ApiError(502, f"the upstream refuses the server's key (status {response.status}); "
                        "the operator must fix the key", code="upstream_key", headers=NO_RETRY)
    return ApiError(response.status, str(error), headers=_retry_headers(response) | NO_RETRY,
                    content=_error_object(response))


def _retry_headers(response: ErrorResponse) -> dict[str, str]:
    return {name: value for name, value in response.headers.items()
            if name.lower() in _PASSED_HEADERS or name.lower().startswith("x-ratelimit-")}


def _error_object(response: ErrorResponse) -> str:
    """The unchanged body if it is an OpenAI error object, else its text in such an object."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return response.content
    message = (body.get("message") or body.get("detail") or body.get("error")
               if isinstance(body, dict) else None)
    text = message if isinstance(message, str) else response.content[:500]
    return json.dumps(ApiError(response.status, text or "the upstream refused").body)
