"""The input of a run: files of JSON lines or plain text, or Python objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.sampler import Message
from minrisk._core.segment import Segment
from minrisk.io.files import Input
from minrisk.io.inputs import InputFile, input_files
from minrisk.io.prompts import PromptReader
from minrisk.io.records import RawRecord, Reader, Record, ShardedReader
from minrisk.io.segments import SampleReader
from minrisk.io.text import FilePath, TextFiles
from minrisk.run.options import reads_remotely
from minrisk.tasks.results import DecodedSegment, SampledPrompt

T = TypeVar("T")
Segments = FilePath | TextFiles | Iterable[
    Segment | SampledPrompt | DecodedSegment | Mapping[str, Any] | Sequence[str] | FilePath]
Prompts = os.PathLike[str] | Iterable[
    str | Mapping[str, Any] | Sequence[Message] | os.PathLike[str]]


@dataclass(frozen=True)
class LimitedReader:
    """Reads only the first records of a reader."""

    reader: Reader
    limit: int

    def open(self) -> list[Input]:
        return self.reader.open()

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        return first(self.reader.records(inputs), self.limit)

    def shards(self) -> Sequence[Reader]:
        raise InputError(Wording("limit= is for a single output file; give fewer inputs, or a "
                                 "file instead of a folder"))

    def parse(self, raw: RawRecord) -> Record:
        return self.reader.parse(raw)


def first(items: Iterable[T], limit: int | None) -> Iterator[T]:
    """The first items, or all; unlike `islice`, it accepts limits of any size."""
    return islice(items, None if limit is None else min(limit, sys.maxsize))


@dataclass(frozen=True)
class Corpus:
    """The input of a run: files, or Python objects."""

    files: tuple[InputFile, ...]
    objects: Iterable[Any] = ()
    text: TextFiles | None = None  # for plain text: how lines form segments
    limit: int | None = None  # maximum number of records to read

    def inputs(self, lines: SampleReader | PromptReader) -> dict[str, Any]:
        """What a `Job` says of its input; `lines` reads files of JSON lines, and objects."""
        reader: ShardedReader = lines
        parser: Reader | None = None
        if not self.files:  # workers parse objects without having all of them
            reader, parser = _object_reader(self.objects, lines), _object_reader((), lines)
        elif self.text is not None and isinstance(lines, SampleReader):
            reader = self.text.reader(lines.weighting)
        if self.limit is not None:
            reader = LimitedReader(reader, self.limit)
        return {"files": self.files, "reader": reader, "parser": parser,
                "also_read": self.text.further_files() if self.text else []}

    @property
    def settings(self) -> dict[str, Any]:
        limit = {} if self.limit is None else {"limit": self.limit}
        return (self.text.settings() if self.text else {}) | limit


def _object_reader(objects: Iterable[Any], lines: SampleReader | PromptReader) -> ShardedReader:
    from minrisk.io.objects import ObjectReader  # commands read files

    return ObjectReader(objects, lines)


def segments_of(segments: Any, engine: str | None = None) -> Corpus:
    """A corpus from file names (strings or paths), plain text, or an iterable of segments."""
    if isinstance(segments, TextFiles):
        return Corpus(segments.files, text=segments)
    if isinstance(segments, str | os.PathLike):
        return _files([segments])
    first, rest = _peek(segments, "segments must be file names, or an iterable of segments: "
                        "Segment objects, dicts or lists of samples")
    if not isinstance(first, str | os.PathLike):
        return _objects(rest, engine)
    try:
        return _files(rest)
    except InputError as error:
        raise InputError(Wording("{error}; strings are names of files here: for the samples "
                                 "of one segment, use minrisk.decode", error=error)) from None


def prompts_of(prompts: Any, engine: str | None = None) -> Corpus:
    """A corpus from file names (paths only), or an iterable of prompts; strings are prompts."""
    if isinstance(prompts, os.PathLike):
        return _files([prompts])
    first, rest = _peek(prompts, "prompts must be a pathlib.Path of a file, or an iterable of "
                        "prompts: strings, dicts or lists of messages")
    return _files(rest) if isinstance(first, os.PathLike) else _objects(rest, engine)


def _objects(objects: Iterable[Any], engine: str | None) -> Corpus:
    """A corpus of objects; an iterable is read completely first if workers read the input."""
    return Corpus((), tuple(objects) if reads_remotely(engine) else objects)


def _peek(items: Any, wanted: str) -> tuple[Any, Iterable[Any]]:
    """The first item, and an iterable of all items."""
    from minrisk.io.objects import rows_of

    items = rows_of(items)
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise InputError(f"{wanted}; got {brief(items)}")
    if isinstance(items, Collection):  # it can be iterated again
        return next(iter(items), None), items
    iterator = iter(items)
    beginning = list(islice(iterator, 1))
    return next(iter(beginning), None), chain(beginning, iterator)


def _files(paths: Iterable[Any]) -> Corpus:
    return Corpus(input_files(paths, "give either names of files or objects, not both"))
