"""References of one segment in files: plain text with one a line, JSON lines or Parquet.

    {"references" | "samples" | "hypotheses": [...], "weights"?: [...], "counts"?: [...], ...}

Every line of JSON adds its references, so that what `minrisk sample` writes can be read as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from minrisk._core.references import BLOCK, References
from minrisk.io.files import Input
from minrisk.io.inputs import open_input
from minrisk.io.jsonl import parse, references_of
from minrisk.io.prompts import is_json
from minrisk.io.record import at
from minrisk.io.remote import shown


@dataclass(frozen=True)
class ReferenceFile:
    """A shard that is read where it is needed, a part at a time."""

    path: str
    given: str | None = None  # the path as messages show it

    @property
    def name(self) -> str:
        return shown(self.given or self.path)

    def blocks(self) -> Iterator[References]:
        source = open_input(self.path, None if self.path == "-" else self.name)
        lines = iter(source)
        first = next(lines, b"")
        read = _from_json if is_json("auto", self.path, first) else _from_text
        yield from read(source, chain([first] if source.number else [], lines))


def _from_text(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    while texts := [source.text(line) for line in islice(lines, BLOCK)]:
        yield References(texts, name=source.name)


def _from_json(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    for line in filter(bytes.strip, lines):
        where = f"{source.name}:{source.number}"
        text = source.text(line)
        with at(where):
            found = references_of(parse(text, "name it .txt"))
        yield from References(*found, name=where).blocks()
