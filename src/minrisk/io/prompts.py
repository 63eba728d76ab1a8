"""What to sample from: plain text with a source a line, or JSON lines.

    {"id"?, "source" | "prompt" | "messages": ..., ...}

A prompt, or a chat of messages with "role" and "content", is what the model is given; a source
beside it is for metrics that read it. Other fields pass through to the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk.io.compression import EXTENSIONS
from minrisk.io.files import Input, text_of
from minrisk.io.inputs import InputFile
from minrisk.io.jsonl import SAMPLED, id_of, parse, show, source_of
from minrisk.io.record import RawRecord, Record, checksum

InputFormat = Literal["auto", "text", "json"]
JSON = (".jsonl", ".json", ".ndjson")
_WRITTEN = SAMPLED | {"id", "usage"}  # by `sample`


@dataclass(frozen=True)
class PromptReader:
    """The prompts of several files, numbered through."""

    files: tuple[InputFile, ...]
    form: InputFormat = "auto"

    def open(self) -> list[Input]:
        return [file.open() for file in self.files]

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        index = 0
        for source in inputs:
            lines = iter(source)
            first = next(lines, b"")
            as_json = source.has_fields or is_json(self.form, source.path, first)
            for line in chain([first] if source.number else [], lines):
                if line.strip() or not as_json:
                    yield RawRecord(index, source.name, source.number, line, checksum(line),
                                    as_json)
                    index += 1

    def parse(self, raw: RawRecord) -> Record:
        record = Record.of(raw)
        try:
            text = text_of(raw.content, raw.line)
            fields = parse(text, "give input_format='text'") if raw.as_json else {"source": text}
        except InputError as error:
            return record.failed(error)
        return self.parse_fields(fields, record)

    def parse_fields(self, fields: dict[str, Any], record: Record) -> Record:
        """What the fields of a line say."""
        record = replace(record, fields={k: v for k, v in fields.items()
                                         if k not in _WRITTEN and v is not None})
        try:
            record = replace(record, id=id_of(fields, record.index))
            return replace(record, prompt=_prompt(fields))
        except InputError as error:
            return record.failed(error)


def is_source(record: Record) -> bool:
    """Whether the model is given a bare source, so that it must know what to do with it."""
    return "prompt" not in record.fields and "messages" not in record.fields


def is_json(form: InputFormat, path: str, line: bytes) -> bool:
    """Whether a file is JSON lines, by what was said of it, its name, or its first line."""
    if form != "auto":
        return form == "json"
    for extension in EXTENSIONS:
        path = path.removesuffix(extension)
    return path.endswith(JSON) or line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")


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
    return found


def _messages(found: Any) -> list[dict[str, Any]]:
    """A chat; what a message has besides its role is between the user and the model."""
    def fine(message: Any) -> bool:
        return isinstance(message, dict) and isinstance(message.get("role"), str)

    if not isinstance(found, list) or not found or not all(map(fine, found)):
        raise InputError(f"found messages {show(found)}, "
                         'wanted a list of {"role": "...", "content": "..."}')
    return found
