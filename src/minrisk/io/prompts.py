"""Prompts: plain text with one source per line, or JSON lines.

    {"id"?, "source" | "prompt" | "messages": ..., ...}

The model gets the prompt, or the messages of a chat with "role" and "content", or else the source.
A source beside a prompt is for metrics that need it. Other fields are copied to the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

from minrisk._core.errors import InputError, Wording
from minrisk.io.files import Input, text_of
from minrisk.io.inputs import InputFile, InputFormat, peek_format
from minrisk.io.records import RawRecord, Record, checksum
from minrisk.io.segments import SAMPLE_FIELDS, Ids, parse, show, source_of, without_choice

_OUTPUT_FIELDS = SAMPLE_FIELDS | {"id", "usage"}  # fields that `sample` writes


@dataclass(frozen=True)
class PromptReader:
    """A reader of prompts from several files."""

    files: tuple[InputFile, ...]
    format: InputFormat = "auto"
    ids: Ids = field(default_factory=Ids, compare=False, repr=False)

    def open(self) -> list[Input]:
        return [file.open() for file in self.files]

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        index = 0
        for source in inputs:
            as_json, lines = peek_format(source, self.format)
            for line in lines:
                if line.strip() or not as_json:
                    yield RawRecord(index, source.name, source.number, line, checksum(line),
                                    as_json)
                    index += 1

    def shards(self) -> list[Self]:
        return [replace(self, files=(file,), ids=Ids()) for file in self.files]

    def parse(self, raw: RawRecord) -> Record:
        record = Record.of(raw)
        try:
            text = text_of(raw.content, raw.line)
            advice = Wording("give input_format='text'")
            fields = parse(text, advice) if raw.as_json else {"source": text}
        except InputError as error:
            return record.failed(error)
        return self.parse_fields(fields, record)

    def parse_fields(self, fields: dict[str, Any], record: Record) -> Record:
        """The record with the prompt from the fields of a JSON line."""
        parsed: dict[str, Any] = {"fields": {key: value
                                             for key, value in without_choice(fields).items()
                                             if key not in _OUTPUT_FIELDS and value is not None}}
        try:
            parsed["id"] = self.ids.of(fields, record.index)
            parsed["prompt"] = _prompt(fields)
        except InputError as error:
            return record.replace(**parsed).failed(error)
        return record.replace(**parsed)


def is_source(record: Record) -> bool:
    """Whether the model gets a source, without a prompt or messages."""
    return "prompt" not in record.fields and "messages" not in record.fields


def _prompt(fields: dict[str, Any]) -> str | list[dict[str, Any]]:
    source, prompt, messages = source_of(fields), fields.get("prompt"), fields.get("messages")
    if prompt is not None and messages is not None:
        raise InputError("found both prompt and messages, expected one of them")
    if messages is not None:
        return checked_messages(messages)
    text = source if prompt is None else prompt
    if text is None:
        named = ", ".join(key for key, value in fields.items() if value is not None)
        raise InputError(f"found the fields {named or '(none)'}, expected source, prompt or "
                         "messages")
    if not isinstance(text, str):
        raise InputError(f"found prompt {show(text)}, expected a string")
    return text


def checked_messages(found: Any) -> list[dict[str, Any]]:
    """The messages of a chat, with only their roles checked."""
    def is_message(message: Any) -> bool:
        return isinstance(message, dict) and isinstance(message.get("role"), str)

    if not isinstance(found, list) or not found or not all(map(is_message, found)):
        raise InputError(f"found messages {show(found)}, "
                         'wanted a list of {"role": "...", "content": "..."}')
    return found
