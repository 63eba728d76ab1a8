"""Requests to `/v1/responses`: forwarded to an upstream that has it, else as chat completions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from minrisk.server.requests import ClientRequest, read_json, read_request
from minrisk.server.responses import ApiError
from minrisk.server.settings import Settings

# fields that chat completions have under the same name; sampling parameters are for upstreams that
# take more than OpenAI's
_SAME = frozenset({
    "minrisk", "model", "metadata", "moderation", "parallel_tool_calls", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "stream",
    "temperature", "top_p", "user",
    "chat_template_kwargs", "frequency_penalty", "logit_bias", "min_p", "presence_penalty",
    "repetition_penalty", "seed", "stop", "top_k"})
_READ = frozenset({"include", "input", "instructions", "max_output_tokens", "reasoning", "text",
                   "tool_choice", "tools", "top_logprobs"})
# without effect here: nothing is stored, and the upstream's own tools, of which it limits the
# calls, are refused
_WITHOUT_EFFECT = frozenset({"max_tool_calls", "store", "stream_options",
                             "truncation"})
# what chat completions cannot do, and what to do instead
_STATE = "the upstream keeps no state; send all items as input"
_FORWARD = "chat completions have none; leave it out"
_REFUSED = {"previous_response_id": _STATE, "prompt": _FORWARD, "context_management": _FORWARD,
            "access_programs": _FORWARD, "image": _FORWARD}
# what does not go with several samples
_SINGLE = {"conversation": "each of several samples would be added to it; send all items as input",
           "background": "leave it out and wait for the answer, or stream it"}
_TRUNCATION = f"input is never shortened here; {_FORWARD}"
_LOGPROBS = "message.output_text.logprobs"
# parts of other tools' items, which cannot occur, and encrypted reasoning, which chats lack
_INCLUDABLE = frozenset({
    _LOGPROBS, "reasoning.encrypted_content", "web_search_call.action.sources",
    "web_search_call.results", "code_interpreter_call.outputs", "file_search_call.results",
    "computer_call_output.output.image_url", "message.input_image.image_url"})
_KINDS: Mapping[type, str] = {str: "a string", int: "an integer", bool: "true or false",
                              list: "a list", dict: "an object"}
_TYPES: Mapping[str, type] = {
    "instructions": str, "max_output_tokens": int, "reasoning": dict, "text": dict, "tools": list,
    "include": list, "top_logprobs": int, "metadata": dict, "background": bool, "store": bool,
    "stream": bool, "stream_options": dict, "truncation": str, "previous_response_id": str,
    "parallel_tool_calls": bool, "max_tool_calls": int}
_ROLES = {"user": "user", "assistant": "assistant", "system": "system",
          "developer": "system"}  # few chat templates know developers


@dataclass(frozen=True)
class ResponsesRequest:
    """A request to `/v1/responses`, and the request for chat completions that stands for it."""

    given: Mapping[str, Any]
    chat: dict[str, Any] | ApiError  # or why chat completions cannot do it

    def translated(self, settings: Settings) -> ClientRequest:
        """For an upstream without `/v1/responses`."""
        if isinstance(self.chat, ApiError):
            raise self.chat
        request = read_request("chat", self.chat, settings)
        return replace(request, replaceable=frozenset({"max_tokens"}))

    def forwarded(self, settings: Settings) -> ClientRequest:
        """For an upstream with `/v1/responses`, which checks what minrisk does not read."""
        _refuse(self.given, _SINGLE)
        chat = _outline(self.given) if isinstance(self.chat, ApiError) else self.chat
        return replace(read_request("chat", chat, settings), forwarded=self.given)


def read_responses_request(raw: bytes) -> ResponsesRequest:
    given = {name: value for name, value in read_json(raw).items() if value is not None}
    try:
        return ResponsesRequest(given, _translated(given))
    except ApiError as error:
        return ResponsesRequest(given, error)


def _outline(given: Mapping[str, Any]) -> dict[str, Any]:
    """A chat with what minrisk reads of a request that has more than a chat can have."""
    chat = {name: given[name] for name in ("minrisk", "model", "seed", "stream", "temperature")
            if name in given}
    if isinstance(given.get("text"), dict):
        with suppress(ApiError):
            chat |= _text_fields(given)
    found = given.get("input")
    items = [item for item in found if isinstance(item, dict) and "content" in item] if isinstance(
        found, list) else [{"role": "user", "content": found or ""}]
    return chat | {"messages": items or [{"role": "user", "content": ""}]}


def _translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """A request for chat completions; what these cannot do is refused."""
    for name in given.keys() - _SAME - _READ - _WITHOUT_EFFECT - _REFUSED.keys() - _SINGLE.keys():
        raise _error(name[:60], "unknown field of /v1/responses; leave it out")
    _check_types(given)
    _refuse(given, _REFUSED | _SINGLE)
    if given.get("truncation", "disabled") != "disabled":
        raise _error("truncation", _TRUNCATION)
    chat = {name: value for name, value in given.items() if name in _SAME and name != "metadata"}
    chat |= {"messages": _Chat().messages(given), **_text_fields(given), **_tool_fields(given),
             **_logprob_fields(given)}
    if (effort := given.get("reasoning", {}).get("effort")) is not None:
        chat["reasoning_effort"] = effort
    if (limit := given.get("max_output_tokens")) is not None:
        chat["max_tokens"] = limit
    if given.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    return chat


def _error(param: str, reason: str) -> ApiError:
    return ApiError(400, f"{param}: {reason}", param=param)


def _check_types(given: Mapping[str, Any]) -> None:
    for name, kind in _TYPES.items():
        if given.get(name) is not None:
            _checked(given[name], kind, name)


def _checked(value: Any, kind: type, param: str) -> Any:
    """The value, which must be of this type."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _error(param, f"expected {_KINDS[kind]}")
    return value


def _get(fields: Mapping[str, Any], name: str, kind: type, param: str) -> Any:
    """A field that must be there, with this type."""
    return _checked(fields.get(name), kind, f"{param}.{name}")


def _refuse(given: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        if given.get(name):
            raise _error(name, f"not supported: {reason}")


def _text_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The format of the answer, and its verbosity."""
    text = given.get("text") or {}
    fields = {} if text.get("verbosity") is None else {"verbosity": text["verbosity"]}
    if text.get("format") is None:
        return fields
    wanted = _checked(text["format"], dict, "text.format")
    kind = _get(wanted, "type", str, "text.format")
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type"}
        return fields | {"response_format": {"type": kind, "json_schema": schema}}
    return fields if kind == "text" else fields | {"response_format": wanted}


def _logprob_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    wanted = given.get("include") or []
    for number, name in enumerate(wanted):
        if not isinstance(name, str) or name not in _INCLUDABLE:
            raise _error(f"include[{number}]", f"expected one of {', '.join(sorted(_INCLUDABLE))}")
    most = given.get("top_logprobs") or 0
    if not most and _LOGPROBS not in wanted:
        return {}
    return {"logprobs": True} | ({"top_logprobs": most} if most else {})


# tools


def _tool_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    tools = [_tool(tool, f"tools[{number}]") for number, tool in enumerate(given.get("tools", ()))]
    choice = given.get("tool_choice")
    fields = {} if choice is None else {"tool_choice": _tool_choice(choice)}
    return fields | {"tools": tools} if tools else {}


def _tool(tool: Any, param: str) -> dict[str, Any]:
    """A tool that the client executes; `type` stands beside its fields in one protocol, above them
    in the other.
    """
    kind = _get(_checked(tool, dict, param), "type", str, param)
    if kind not in ("function", "custom"):
        raise _error(f"{param}.type", f"{kind[:60]!r} is a tool of the upstream's; expected "
                                      "'function' or 'custom'")
    _get(tool, "name", str, param)
    fields = {name: value for name, value in tool.items() if name != "type" and value is not None}
    form = fields.get("format")
    if kind == "custom" and isinstance(form, dict) and form.get("type") == "grammar":
        fields["format"] = {"type": "grammar", "grammar": {
            name: value for name, value in form.items() if name != "type"}}
    return {"type": kind, kind: fields}


def _tool_choice(choice: Any, param: str = "tool_choice") -> Any:
    if isinstance(choice, str):
        return choice
    kind = _get(_checked(choice, dict, param), "type", str, param)
    if kind in ("function", "custom"):
        return {"type": kind, kind: {"name": _get(choice, "name", str, param)}}
    if kind == "allowed_tools":
        tools = [_tool_choice(tool, f"{param}.tools[{number}]")
                 for number, tool in enumerate(_get(choice, "tools", list, param))]
        return {"type": kind, kind: {"mode": choice.get("mode", "auto"), "tools": tools}}
    raise _error(f"{param}.type", f"{kind[:60]!r} is not supported; expected 'function', 'custom' "
                                  "or 'allowed_tools'")


# input


@dataclass
class _Chat:
    """The messages of a chat, from the items of an input."""

    _messages: list[dict[str, Any]] = field(default_factory=list)

    def messages(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        if given.get("instructions"):
            self._messages.append({"role": "system", "content": given["instructions"]})
        found = given.get("input")
        if isinstance(found, str) and found:
            self._messages.append({"role": "user", "content": found})
        elif isinstance(found, list):
            for number, item in enumerate(found):
                self._add(_checked(item, dict, f"input[{number}]"), f"input[{number}]")
        else:
            raise _error("input", "expected a string or a list of items")
        # reasoning that no message or call follows has no place in a chat
        messages = [message for message in self._messages
                    if "content" in message or "tool_calls" in message]
        if not messages:
            raise _error("input", "expected a string, or a list with at least one item")
        return messages

    def _add(self, item: dict[str, Any], param: str) -> None:
        kind = item.get("type") or "message"
        add = _ITEMS.get(kind) if isinstance(kind, str) else None
        if add is not None:
            add(self, item, param)
        else:
            reason = (_STATE if kind == "item_reference"
                      else f"expected one of {', '.join(sorted(_ITEMS))}")
            raise _error(f"{param}.type", f"{str(kind)[:60]!r} is not supported: {reason}")

    def _message(self, item: dict[str, Any], param: str) -> None:
        role = _ROLES.get(_get(item, "role", str, param))
        if role is None:
            raise _error(f"{param}.role", f"expected one of {', '.join(_ROLES)}")
        content = self._content(item.get("content"), f"{param}.content")
        if role == "assistant":
            self._assistant("content", "tool_calls")["content"] = content
        else:
            self._messages.append({"role": role, "content": content})

    def _reasoning(self, item: dict[str, Any], param: str) -> None:
        """Reasoning belongs to the message or call after it; of encrypted one, nothing is left."""
        parts = _checked(item.get("content") or item.get("summary") or [], list, f"{param}.content")
        text = "\n".join(_get(_checked(part, dict, f"{param}.content[{number}]"), "text", str,
                              f"{param}.content[{number}]") for number, part in enumerate(parts))
        if text:
            message = self._assistant("content", "tool_calls")
            known = message.get("reasoning_content")
            message["reasoning_content"] = f"{known}\n{text}" if known else text

    def _call(self, item: dict[str, Any], param: str, kind: str, name: str) -> None:
        call = {"name": _get(item, "name", str, param), name: _get(item, name, str, param)}
        calls = self._assistant().setdefault("tool_calls", [])
        calls.append({"id": _get(item, "call_id", str, param), "type": kind, kind: call})

    def _function_call(self, item: dict[str, Any], param: str) -> None:
        self._call(item, param, "function", "arguments")

    def _custom_call(self, item: dict[str, Any], param: str) -> None:
        self._call(item, param, "custom", "input")

    def _output(self, item: dict[str, Any], param: str) -> None:
        self._messages.append({
            "role": "tool", "tool_call_id": _get(item, "call_id", str, param),
            "content": self._content(item.get("output"), f"{param}.output")})

    def _assistant(self, *without: str) -> dict[str, Any]:
        """The last message if it is the assistant's and has none of these fields, else a new one:
        reasoning, content and calls of one turn are items of their own.
        """
        last = self._messages[-1] if self._messages else {}
        if last.get("role") != "assistant" or not last.keys().isdisjoint(without):
            last = {"role": "assistant"}
            self._messages.append(last)
        return last

    def _content(self, content: Any, param: str) -> str | list[dict[str, Any]]:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise _error(param, "expected a string or a list of parts")
        parts = list(self._parts(content, param))
        # more servers take texts than lists of parts
        if len(parts) == 1 and parts[0]["type"] == "text":
            return str(parts[0]["text"])
        return parts or ""

    def _parts(self, parts: list[Any], param: str) -> Iterator[dict[str, Any]]:
        for number, part in enumerate(parts):
            place = f"{param}[{number}]"
            kind = _get(_checked(part, dict, place), "type", str, place)
            read = _PARTS.get(kind)
            found = read(part, place) if read is not None else None
            if found is not None:
                yield found
            else:
                raise _error(f"{place}.type", f"{kind[:60]!r} without a text, data or a URL is not "
                                              f"supported; expected one of {', '.join(_PARTS)}"
                             if read is not None else
                             f"{kind[:60]!r} is not supported; expected one of {', '.join(_PARTS)}")


_ITEMS: Mapping[str, Callable[[_Chat, dict[str, Any], str], None]] = {
    "message": _Chat._message, "reasoning": _Chat._reasoning,
    "function_call": _Chat._function_call, "function_call_output": _Chat._output,
    "custom_tool_call": _Chat._custom_call, "custom_tool_call_output": _Chat._output}


def _text_part(part: dict[str, Any], param: str) -> dict[str, Any]:
    return {"type": "text", "text": _get(part, "text", str, param)}


def _refusal(part: dict[str, Any], param: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": _get(part, "refusal", str, param)}


def _image(part: dict[str, Any], param: str) -> dict[str, Any] | None:
    if not isinstance(part.get("image_url"), str):
        return None
    return {"type": "image_url", "image_url": _given(part, "detail") | {"url": part["image_url"]}}


def _file(part: dict[str, Any], param: str) -> dict[str, Any] | None:
    fields = _given(part, "file_data", "file_id", "filename")
    return {"type": "file", "file": fields} if fields.keys() - {"filename"} else None


def _audio(part: dict[str, Any], param: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": _get(part, "input_audio", dict, param)}


def _given(part: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: part[name] for name in names if part.get(name) is not None}


_PARTS: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any] | None]] = {
    "input_text": _text_part, "output_text": _text_part, "text": _text_part, "refusal": _refusal,
    "summary_text": _text_part, "reasoning_text": _text_part,
    "input_image": _image, "input_file": _file, "input_audio": _audio}
