"""Responses of `/v1/responses` as completions of a chat, and an upstream that speaks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk._core.token_confidence import WINDOW
from minrisk.openai.client import Client, Response
from minrisk.openai.completions import Completions
from minrisk.openai.errors import InvalidResponse, error_response

PATH = "responses"
LOGPROBS = "message.output_text.logprobs"  # what `include` has to request them
_ABSENT = (404, 405, 501)  # statuses of a server without the route
_PRESENT = (400, 413, 415, 422)  # of one that has it, and checks the body
# owners of models whose servers have the route, but ignore text.format and tell of no answer that
# it was cut (github.com/ggml-org/llama.cpp/issues/21922); their chat completions do both
_INCOMPLETE = ("llamacpp",)
_TEMPORARY = ("server_error", "rate_limit_exceeded")
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}
_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_USAGE = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens",
          "total_tokens": "total_tokens", "input_tokens_details": "prompt_tokens_details",
          "output_tokens_details": "completion_tokens_details"}


async def has_route(client: Client) -> bool | None:
    """Whether the server has `/v1/responses`, and does all of it; None if its answer does not tell.

    An empty request draws no sample: where the route exists, its body is refused.
    """
    try:
        await client.probe(PATH)
    except MinriskError as error:
        response = error_response(error)
        status = None if response is None else response.status
        if status not in _PRESENT:
            return False if status in _ABSENT else None
    try:
        found = (await client.get("models")).body
    except MinriskError:
        return True
    models = found.get("data") if isinstance(found, dict) else None
    return not any(isinstance(one, dict) and one.get("owned_by") in _INCOMPLETE
                   for one in (models if isinstance(models, list) else ()))


class ResponsesEndpoint(Completions):
    """Requests to `/v1/responses`, each for one choice, which has its response as `response`."""

    def __init__(self, client: Client, window: int = WINDOW) -> None:
        super().__init__(client, per_request=1, window=window)
        self._path = PATH
        self._check = check_response_object

    def _read(self, response: Response) -> Response:
        return replace(response, body=as_completion(response.body), raw=None)


def check_response_object(body: Any) -> InvalidResponse | None:
    """The problem of an invalid response; None if it is valid."""
    items = body.get("output") if isinstance(body, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return InvalidResponse("expected a response with its output", is_temporary=False)
    if body.get("status") in ("completed", "incomplete", None):
        return None
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return InvalidResponse("the response has failed", is_temporary=code in _TEMPORARY)


def as_completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """A response as a chat completion of one choice."""
    items = body["output"]
    parts = [part for item in items if item.get("type") == "message" for part in _parts(item)]
    calls = [_call(item) for item in items if str(item.get("type")) in _CALLS]
    thoughts = [part.get("text") for item in items if item.get("type") == "reasoning"
                for part in _parts(item, "content") or _parts(item, "summary")]
    message = {"role": "assistant", "content": _joined(part.get("text") for part in parts),
               "refusal": _joined(part.get("refusal") for part in parts),
               "reasoning_content": _joined(thoughts), "tool_calls": calls or None}
    tokens = [token for part in parts if isinstance(part.get("logprobs"), list)
              for token in part["logprobs"]]
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    response = {**body, "status": body.get("status") or "completed"}
    choice = {"index": 0, "message": message, "response": response,
              "logprobs": {"content": tokens} if tokens else None,
              "finish_reason": _FINISH.get(str(reason)) or ("tool_calls" if calls else "stop")}
    head = {name: body[name] for name in ("id", "model") if isinstance(body.get(name), str)}
    usage = body.get("usage")
    return {**head, "choices": [choice], **({"usage": {
        _USAGE.get(name, name): value for name, value in usage.items()}}
        if isinstance(usage, dict) else {})}


def _parts(item: Mapping[str, Any], name: str = "content") -> list[dict[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _joined(texts: Iterable[Any]) -> str | None:
    """The texts as one; None without any."""
    found = [text for text in texts if isinstance(text, str)]
    return "".join(found) if found else None


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    kind, argument = _CALLS[item["type"]]
    return {"id": item.get("call_id"), "type": kind,
            kind: {"name": item.get("name"), argument: item.get(argument)}}
