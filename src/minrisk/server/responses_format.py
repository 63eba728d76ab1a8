"""Answers to `/v1/responses`: a response, whole or as events in the protocol's order."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minrisk.openai.encoding import Encoder
from minrisk.openai.responses import LAST_EVENTS
from minrisk.server.requests import ClientRequest
from minrisk.server.responses import ApiError, Completion, CompletionFormat, event

Event = dict[str, Any]

# fields of a response that repeat the request, with their values if the request has none
_REPEATED: Mapping[str, Any] = {
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True, "prompt_cache_key": None, "reasoning": {},
    "safety_identifier": None, "temperature": None, "text": {"format": {"type": "text"}},
    "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": None, "user": None}
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}  # finish reasons
_IDS = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
# fields of an item that are empty when it is added
_GROWING: Mapping[str, Any] = {"content": [], "summary": [], "arguments": "", "input": ""}
_TEXTS = {  # what holds a text -> the text's field, and the name of its events
    "output_text": ("text", "output_text"), "refusal": ("refusal", "refusal"),
    "reasoning_text": ("text", "reasoning_text"),
    "summary_text": ("text", "reasoning_summary_text"),
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input")}
_CALLS = {"function": ("function_call", "arguments"), "custom": ("custom_tool_call", "input")}


class ResponsesFormat(CompletionFormat):
    """Writes the answer to a request as a response, or as its events.

    The items come from a choice of a chat completion; those of an upstream with the same protocol
    stay as they are.
    """

    def __init__(self, encoder: Encoder, given: Mapping[str, Any], request: ClientRequest) -> None:
        super().__init__(encoder)
        self._head = {
            "id": f"resp_{secrets.token_hex(12)}", "object": "response",
            "created_at": int(time.time()), "status": "in_progress", "background": False,
            "error": None, "incomplete_details": None, "model": request.model, "output": [],
            "previous_response_id": None, "store": False, "truncation": "disabled", "usage": None,
            **_REPEATED, **{name: given[name] for name in _REPEATED if given.get(name) is not None}}
        self._head["temperature"] = request.given.get("temperature",
                                                      request.defaults.get("temperature"))
        self._number = 0  # of the next event
        self._output = _Output()  # of a stream that is relayed

    async def whole(self, answer: Completion) -> bytes:
        return await self._encoder.encode(self._response(answer, None))

    async def relayed(self, chunk: Mapping[str, Any]) -> list[bytes]:
        if str(chunk.get("type")).startswith("response."):  # of an upstream with this protocol
            return [] if chunk["type"] in LAST_EVENTS else await self._written([dict(chunk)])
        if isinstance(chunk.get("model"), str):
            self._head["model"] = chunk["model"]
        choices = chunk.get("choices")
        events = [one for choice in (choices if isinstance(choices, list) else [])
                  if isinstance(choice, dict) and not choice.get("index")
                  for one in self._output.add(choice)]
        return await self._written([*self._start(self._head), *events])

    async def last(self, answer: Completion, is_relayed: bool) -> list[bytes]:
        if is_relayed and "response" in answer.choices[0]:
            response, events = self._response(answer, None), []
        elif is_relayed:
            events = list(self._output.end(_status(answer.choices[0])))
            response = self._response(answer, self._output.items)
        else:
            response = self._response(answer, None)
            events = [one for place, item in enumerate(response["output"])
                      for one in _item_events(place, item)]
        start = self._start({**response, **{name: self._head[name] for name in (
            "status", "output", "usage", "error", "incomplete_details")}})
        return await self._written([*start, *events, {
            "type": f"response.{response['status']}", "response": response}])

    async def failure(self, error: ApiError) -> list[bytes]:
        """The event of a failed response, if it has begun, and an error that clients raise."""
        found = json.loads(error.content)["error"]
        code, message = found.get("code"), found.get("message")
        failed = self._head | {"status": "failed", "error": {"code": code or "server_error",
                                                             "message": message}}
        events = [{"type": "response.failed", "response": failed}] if self._number else []
        return await self._written([*events, {
            "type": "error", "code": code, "message": message, "param": found.get("param"),
            "error": found}])

    def _start(self, response: Mapping[str, Any]) -> list[Event]:
        if self._number:
            return []
        shown = {name: value for name, value in response.items() if name != "minrisk"}
        return [{"type": f"response.{name}", "response": shown}
                for name in ("created", "in_progress")]

    async def _written(self, events: Sequence[Event]) -> list[bytes]:
        """The events with their numbers."""
        written = []
        for one in events:
            content = await self._encoder.encode(one | {"sequence_number": self._number})
            written.append(event(content, one["type"]))
            self._number += 1
        return written

    def _response(self, answer: Completion, output: list[dict[str, Any]] | None) -> dict[str, Any]:
        choice, summary = answer.choices[0], dict(answer.summary)
        if "candidates" in summary:
            summary["candidates"] = [
                {"index": place, "status": _status(one), "output": _items(one)}
                for place, one in enumerate(summary["candidates"])]
        ends = {"usage": _usage(answer.usage), "minrisk": summary}
        if (forwarded := _forwarded(choice)) is not None:
            return {**forwarded, **ends}
        status = _status(choice)
        reason = None if status == "completed" else _CUT[choice["finish_reason"]]
        model = answer.head.get("model")
        tier = answer.head.get("service_tier")
        return self._head | ({} if tier is None else {"service_tier": tier}) | {
            "status": status, "output": _items(choice) if output is None else output,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": self._head["model"] if model is None else model, **ends} | (
                {"completed_at": int(time.time())} if status == "completed" else {})


def _status(choice: Mapping[str, Any]) -> str:
    finish = choice.get("finish_reason")
    return "incomplete" if isinstance(finish, str) and finish in _CUT else "completed"


def _usage(usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Token counts under the names of this protocol; None unless both are known."""
    if usage is None or not {"prompt_tokens", "completion_tokens"} <= usage.keys():
        return None
    return {"input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}
            | usage.get("prompt_tokens_details", {}),
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0}
            | usage.get("completion_tokens_details", {}),
            "total_tokens": usage["total_tokens"]}


# items of choices


def _items(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a whole choice."""
    if (forwarded := _forwarded(choice)) is not None:
        items: list[dict[str, Any]] = forwarded["output"]
        return items
    output = _Output()
    for _ in (*output.add(choice), *output.end(_status(choice))):
        pass
    return output.items


def _forwarded(choice: Mapping[str, Any]) -> dict[str, Any] | None:
    """The response of an upstream with this protocol, without log-probabilities that were ours."""
    found = choice.get("response")
    if not isinstance(found, dict) or choice.get("logprobs") is not None:
        return found if isinstance(found, dict) else None
    return found | {"output": [
        item | {"content": [part | {"logprobs": []} if isinstance(part, dict)
                            and part.get("logprobs") else part for part in item["content"]]}
        if isinstance(item.get("content"), list) else item for item in found["output"]]}


class _Output:
    """Items made from a choice, whole or chunk by chunk, and the events that describe them.

    All items end with the choice: the end of a text may come late, because what may be the
    beginning of the upstream's key is held back.
    """

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._texts: dict[Any, _Text] = {}  # by the type of their part, or the index of their call

    def add(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            return
        for reasoning in _texts(message.get("reasoning_content") or message.get("reasoning")):
            yield from self._append("reasoning", "reasoning_text", reasoning)
        for text in _texts(message.get("content")):
            yield from self._append("message", "output_text", text)
        if (known := self._texts.get("output_text")) is not None:
            logprobs = choice.get("logprobs")
            tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
            known.holder["logprobs"] += tokens if isinstance(tokens, list) else []
            known.holder["annotations"] += _annotations(message.get("annotations"))
        for refusal in _texts(message.get("refusal")):
            yield from self._append("message", "refusal", refusal)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                yield from self._call(call)
        if isinstance(message.get("function_call"), dict):  # the older form of a call
            yield from self._call({"index": -1, "function": message["function_call"]})

    def end(self, status: str) -> Iterator[Event]:
        """The events that end all items; an answer without any has an empty text."""
        if not self.items:
            yield from self._append("message", "output_text", "")
        texts: dict[int, list[_Text]] = {}
        for text in self._texts.values():
            texts.setdefault(text.place, []).append(text)
        for place, item in enumerate(self.items):
            for text in texts[place]:
                yield from text.close()
            item["status"] = status if item is self.items[-1] else "completed"
            yield _done(place, item)

    def _append(self, kind: str, part: str, text: str) -> Iterator[Event]:
        if part not in self._texts:
            place = next((place for place, item in enumerate(self.items) if item["type"] == kind),
                         len(self.items))
            if place == len(self.items):
                more: dict[str, Any] = ({"role": "assistant"} if kind == "message"
                                        else {"summary": []})
                yield from self._open({"type": kind, "content": [], **more})
            item = self.items[place]
            holder: dict[str, Any] = {"type": part, _TEXTS[part][0]: ""}
            if part == "output_text":
                holder |= {"annotations": [], "logprobs": []}
            item["content"].append(holder)
            self._texts[part] = _Text(holder, item, {
                "item_id": item["id"], "output_index": place,
                "content_index": len(item["content"]) - 1})
            yield from self._texts[part].open()
        yield from self._texts[part].append(text)

    def _call(self, call: dict[str, Any]) -> Iterator[Event]:
        index = call.get("index")
        key = index if isinstance(index, int) else object()
        kind = "custom" if isinstance(call.get("custom"), dict) else "function"
        fields = call.get(kind)
        fields = fields if isinstance(fields, dict) else {}
        item_type, argument = _CALLS[kind]
        if key not in self._texts:
            call_id = call.get("id")
            yield from self._open({
                "type": item_type, argument: "", "name": str(fields.get("name") or ""),
                "call_id": call_id if isinstance(call_id, str) and call_id
                else f"call_{secrets.token_hex(12)}"})
            item = self.items[-1]
            self._texts[key] = _Text(item, item, {"item_id": item["id"],
                                                  "output_index": len(self.items) - 1})
        known = self._texts[key]
        known.item["name"] = known.item["name"] or str(fields.get("name") or "")
        given = fields.get(argument)
        if given is not None and known.kind == item_type:
            yield from known.append(given if isinstance(given, str) else json.dumps(given))

    def _open(self, item: dict[str, Any]) -> Iterator[Event]:
        item |= {"id": f"{_IDS[item['type']]}_{secrets.token_hex(12)}", "status": "in_progress"}
        self.items.append(item)
        yield _added(len(self.items) - 1, item)


def _texts(found: Any) -> list[str]:
    """The texts of a content: one, or those of its parts."""
    if isinstance(found, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in found]
        return [text for text in texts if isinstance(text, str) and text]
    return [found] if isinstance(found, str) and found else []


def _annotations(found: Any) -> list[dict[str, Any]]:
    """Annotations, whose fields lie one level deeper in a chat completion."""
    listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [{"type": one.get("type"), **one[str(one.get("type"))]}
            if isinstance(one.get(str(one.get("type"))), dict) else one for one in listed]


# events of items


class _Text:
    """A text of an item, and the events that it is made of."""

    def __init__(self, holder: dict[str, Any], item: dict[str, Any],
                 indices: dict[str, Any]) -> None:
        self.holder = holder  # the part, or the item itself
        self.item = item
        self._indices = indices
        self._pieces: list[str] = []
        self._field, self._name = _TEXTS[holder["type"]]
        self._more: dict[str, Any] = {"logprobs": []} if self.kind == "output_text" else {}

    @property
    def kind(self) -> str:
        kind: str = self.holder["type"]
        return kind

    @property
    def place(self) -> int:
        place: int = self._indices["output_index"]
        return place

    def open(self) -> Iterator[Event]:
        lists: dict[str, Any] = {name: [] for name, value in self.holder.items()
                                 if isinstance(value, list)}
        yield from self._part("added", {**self.holder, **lists, self._field: ""})

    def append(self, text: str) -> Iterator[Event]:
        self._pieces.append(text)
        if text:
            yield self._event(f"{self._name}.delta", delta=text, **self._more)

    def close(self) -> Iterator[Event]:
        text = self.holder[self._field] = "".join(self._pieces)
        name = {"name": self.holder["name"]} if "name" in self.holder else {}
        logprobs = {"logprobs": self.holder.get("logprobs") or []} if self._more else {}
        yield self._event(f"{self._name}.done", **{self._field: text}, **name, **logprobs)
        yield from self._part("done", self.holder)

    def _part(self, what: str, part: dict[str, Any]) -> Iterator[Event]:
        if self.holder is not self.item:
            name = "reasoning_summary_part" if self.kind == "summary_text" else "content_part"
            yield self._event(f"{name}.{what}", part=part)

    def _event(self, name: str, /, **fields: Any) -> Event:
        return {"type": f"response.{name}", **self._indices, **fields}


def _item_events(place: int, item: dict[str, Any]) -> Iterator[Event]:
    """The events of a whole item; items of unknown types are only added and done."""
    yield _added(place, item)
    indices = {"item_id": item.get("id"), "output_index": place}
    holders: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (part, indices | {index: number}) for field, index in (
            ("summary", "summary_index"), ("content", "content_index"))
        if isinstance(item.get(field), list) for number, part in enumerate(item[field])
        if isinstance(part, dict)]
    for holder, own in [*holders, (item, indices)]:
        known = _TEXTS.get(str(holder.get("type")))
        if known is not None and isinstance(value := holder.get(known[0]), str):
            text = _Text(holder, item, own)
            yield from text.open()
            yield from text.append(value)
            yield from text.close()
    yield _done(place, item)


def _added(place: int, item: dict[str, Any]) -> Event:
    empty = {name: value for name, value in _GROWING.items() if name in item}
    status = {"status": "in_progress"} if "status" in item else {}
    return {"type": "response.output_item.added", "output_index": place,
            "item": item | empty | status}


def _done(place: int, item: dict[str, Any]) -> Event:
    return {"type": "response.output_item.done", "output_index": place, "item": item}
