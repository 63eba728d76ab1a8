"""What to sample from: plain text with a source a line, or JSON lines.

    {"id"?, "source" | "prompt" | "messages": ..., ...}

A prompt, or a chat of messages with "role" and "content", is what the model is given; a source
beside it is for metrics that read it. Other fields pass through to the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from minrisk.errors import InputError
from minrisk.io.compression import EXTENSIONS
from minrisk.io.files import Input, text_of
from minrisk.io.jsonl import SAMPLED, id_of, parse, show, source_of
from minrisk.io.record import placed

InputFormat = Literal["auto", "text", "json"]
JSON = (".jsonl", ".json", ".ndjson")
_WRITTEN = SAMPLED | {"finish_reasons", "reasoning", "usage"}  # what samplers write


@dataclass(frozen=True)
class Asked:
    """One prompt of the input, or what is wrong with it."""

    id: Any
    where: str  # file:line
    index: int  # place in the input; seeds the prompt's random stream
    prompt: str | list[dict[str, Any]] | InputError
    fields: Mapping[str, Any] = field(default_factory=dict)  # for the output

    @property
    def is_source(self) -> bool:
        """Whether the model is given a bare source, so that it must know what to do with it."""
        return "prompt" not in self.fields and "messages" not in self.fields


def read_prompts(inputs: Iterable[Input], form: InputFormat = "auto") -> Iterator[Asked]:
    """The prompts of several files, numbered through."""
    index = 0
    for source in inputs:
        lines = iter(source)
        first = next(lines, b"")
        as_json = is_json(form, source.path, first)
        for line in chain([first] if source.number else [], lines):
            if as_json and not line.strip():
                continue
            yield read_prompt(line, source.name, source.number, index, as_json)
            index += 1


def is_json(form: InputFormat, path: str, line: bytes) -> bool:
    """Whether a file is JSON lines, by what was said of it, its name, or its first line."""
    if form != "auto":
        return form == "json"
    for extension in EXTENSIONS:
        path = path.removesuffix(extension)
    return path.endswith(JSON) or line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")


def read_prompt(line: bytes, name: str, number: int, index: int, as_json: bool) -> Asked:
    """What a line of the file of this name asks."""
    where = f"{name}:{number}"
    fields: dict[str, Any] = {}
    found: Any = index
    try:
        text = text_of(line, name, number)
        with placed(where):
            fields = parse(text, "give --input-format text") if as_json else {"source": text}
            found = id_of(fields, index)
            prompt: str | list[dict[str, Any]] | InputError = _prompt(fields)
    except InputError as error:
        prompt = error
    kept = {k: v for k, v in fields.items() if k != "id" and k not in _WRITTEN and v is not None}
    return Asked(found, where, index, prompt, kept)


def _prompt(fields: dict[str, Any]) -> str | list[dict[str, Any]]:
    source, prompt, messages = source_of(fields), fields.get("prompt"), fields.get("messages")
    if prompt is not None and messages is not None:
        raise InputError("found both prompt and messages, wanted one of them")
    if messages is not None:
        return _messages(messages)
    found = source if prompt is None else prompt
    if found is None:
        named = ", ".join(key for key, value in fields.items() if value is not None)
        raise InputError(f"found the fields {named or '(none)'}, "
                         "wanted source, prompt or messages")
    if not isinstance(found, str):
        raise InputError(f"found prompt {show(found)}, wanted a string")
    if not found.strip():
        raise InputError("the source is blank; there is nothing to sample from: "
                         "leave it out, or skip it with --on-error skip")
    return found


def _messages(found: Any) -> list[dict[str, Any]]:
    """A chat; what a message has besides its role is between the user and the model."""
    def fine(message: Any) -> bool:
        return isinstance(message, dict) and isinstance(message.get("role"), str)

    if not isinstance(found, list) or not found or not all(map(fine, found)):
        raise InputError(f"found messages {show(found)}, "
                         'wanted a list of {"role": "...", "content": "..."}')
    return found
