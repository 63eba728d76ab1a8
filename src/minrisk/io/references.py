"""Files with references of one segment: plain text with one a line, JSON lines or Parquet.

    {"references" | "samples" | "hypotheses": [...], "weights"?: [...], "counts"?: [...], ...}

The references of all JSON lines are taken together, so that the output of `minrisk sample` can be
read as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from minrisk._core.references import BLOCK, References
from minrisk.io.files import Input
from minrisk.io.inputs import open_input
from minrisk.io.jsonl import parse, references_of
from minrisk.io.prompts import peek_format
from minrisk.io.record import error_location
from minrisk.io.remote import shown


@dataclass(frozen=True)
class ReferenceFile:
    """A file with references of one segment, which the worker that needs it reads in blocks.

    The format is that of `minrisk rank`: plain text with one reference a line, JSON lines with
    "references" or "samples" (and "weights" or "counts"), or Parquet; it may be compressed.

    Args:
        path: path or URL of the file; "-" is standard input.
        given: the path that messages show, if it is another one.

    Raises:
        InputError: when it is read, if it cannot be read or has another format.

    >>> import minrisk, tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("the cat sat down\\na cat sat\\n")
    ...     file.flush()
    ...     part = minrisk.ReferenceFile(file.name)
    ...     minrisk.decode_parts(["the cat sat", "a dog ran"], [part]).text
    'the cat sat'
    """

    path: str
    given: str | None = None

    @property
    def name(self) -> str:
        return shown(self.given or self.path)

    def blocks(self) -> Iterator[References]:
        source = open_input(self.path, None if self.path == "-" else self.name)
        as_json, lines = peek_format(source)
        yield from (_from_json if as_json else _from_text)(source, lines)


def _from_text(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    while texts := [source.text(line) for line in islice(lines, BLOCK)]:
        yield References(texts, name=source.name)


def _from_json(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    for line in filter(bytes.strip, lines):
        text = source.text(line)
        with error_location(source.where):
            found = references_of(parse(text, "name it .txt"))
        yield from References(*found, name=source.where).blocks()
