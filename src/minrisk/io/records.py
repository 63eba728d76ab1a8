"""Records, from the input to the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar
from zlib import crc32

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, MinriskError, Wording, message_of
from minrisk._core.sampler import Prompt, Sample, columns, distinct
from minrisk._core.segment import Ranking, Segment
from minrisk._core.token_confidence import CONFIDENCES
from minrisk.io.files import Input
from minrisk.io.weighting import Weighting

R = TypeVar("R", bound="Record")
Failure = dict[str, Any]  # file, line, id and reason, as in .errors.jsonl


def segment_of(samples: Iterable[Sample], source: str | None, weighting: Weighting,
               index: int = 0, reference_samples: Iterable[Sample] | None = None) -> Segment:
    """The segment of samples; by default, they are also the references."""
    found = columns(samples)
    references, weights = None, None
    if reference_samples is None:
        weights = weighting.of_columns(found)
    else:
        others = columns(reference_samples)
        references, weights = others["samples"], weighting.of_columns(others, repeated=False)
        weights = others["counts"] if weights is None else weights
    counts = found["counts"] if max(found["counts"], default=1) > 1 else None
    return Segment(found["samples"], references, source, weights, index, counts,
                   found.get("logprobs"), found.get("lengths"), models=found.get("models"),
                   confidences={
                       name: found[name] for name in CONFIDENCES.values() if name in found})


def segment_among(samples: Sequence[Sample], others: Iterable[Sample], source: str | None,
                  weighting: Weighting, index: int = 0) -> Segment:
    """The segment of samples; others vote for no answer, represented by blank references."""
    dissent = [replace(other, text="") for other in others]
    segment = segment_of([*samples, *dissent], source, weighting, index)
    return segment.keep(np.arange(len(distinct(samples)))) if dissent else segment


@dataclass(slots=True)
class RawRecord:
    """A record as read, to be parsed by a worker."""

    index: int  # position in its output; seeds its random stream
    file: str
    line: int
    content: Any  # the bytes of a line, or an object of the reader
    checksum: int
    as_json: bool = True  # whether the line is JSON, not plain text
    shard: int = 0  # number of its shard; set by the run, for readers do not know it


@dataclass(frozen=True)
class Record:
    """A parsed record with the results of the stages so far, or with its error.

    Subclasses add fields for the results of further stages.
    """

    index: int
    id: Any
    file: str
    line: int
    last_line: int | None = None  # if it spans several lines
    checksum: int = 0  # of its input
    shard: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)  # copied to the output
    prompt: Prompt | None = None
    samples: Sequence[Sample] | None = None
    reference_samples: Sequence[Sample] | None = None  # if references are sampled separately
    segment: Segment | None = None
    ranking: Ranking | None = None
    scores: Floats | None = None  # (H, R), if requested
    details: Mapping[str, Any] = field(default_factory=dict)  # about the choice, by the metric
    error: MinriskError | None = None

    @property
    def where(self) -> str:
        return location(self.file, self.line, self.last_line)

    @classmethod
    def of(cls, raw: RawRecord, last_line: int | None = None) -> Self:
        """A record with the position of a raw record, but without content."""
        return cls(raw.index, raw.index, raw.file, raw.line, last_line, raw.checksum, raw.shard)

    @property
    def message(self) -> str:
        """Its error, prefixed by its position in the input."""
        return _reason_with_location(self.where, str(self.error))

    @property
    def failure(self) -> Failure | None:
        if self.error is None:
            return None
        return {"file": self.file, "line": self.line, "id": self.id, "reason": str(self.error)}

    def replace(self, **fields: Any) -> Self:
        """The same record with some fields changed; faster than `dataclasses.replace`."""
        assert fields.keys() <= vars(self).keys()
        made = object.__new__(type(self))
        vars(made).update(vars(self), **fields)
        return made

    def extended(self, kind: type[R], **fields: Any) -> R:
        """The same record with the fields of a subclass."""
        return kind(**vars(self) | fields)

    def failed(self, error: BaseException) -> Self:
        """The same record with an error instead of a result."""
        if not isinstance(error, MinriskError):
            error = InputError(f"{type(error).__name__}: {error}")
        return self.replace(error=InputError(message_of(error)), segment=None, samples=None,
                            reference_samples=None, ranking=None, scores=None)


@dataclass(frozen=True)
class Result:
    """The result of one record: its lines of the output, or its failure."""

    shard: int
    index: int
    checksum: int  # of its input
    text: str  # its lines of the output
    counts: Mapping[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    scores: Floats | None = None
    value: Any = None  # for callers that take objects instead of lines

    @property
    def message(self) -> str:
        """The reason of its failure, prefixed by its position in the input."""
        assert self.failure is not None
        where = location(self.failure["file"], self.failure["line"])
        return _reason_with_location(where, self.failure["reason"])


class Reader(Protocol):
    """Reads and parses the records of one output; it can be pickled and sent to any machine."""

    def open(self) -> list[Input]:
        """Open all files without reading them; raises an InputError if one does not exist."""

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        """The records of the opened files, numbered from 0."""

    def parse(self, raw: RawRecord) -> Record:
        """Parse a record; an error becomes part of the record."""


class ShardedReader(Reader, Protocol):
    """A reader of all input files of a run, which can be split into one shard per file."""

    def shards(self) -> Sequence[Reader]:
        """A reader of each input file."""


def location(file: str, line: int, last: int | None = None) -> str:
    """The position of a record, for messages; line 0 means that it has none."""
    if not line:
        return file
    return f"{file}:{line}" + (f"-{last}" if last is not None and last > line else "")


def _reason_with_location(where: str, reason: str) -> str:
    return reason if reason.startswith(f"{where}:") else f"{where}: {reason}"


def checksum(*contents: bytes) -> int:
    """The checksum of the contents and of the boundaries between them."""
    crc = 0
    for number, content in enumerate(contents):
        length = b"%d:" % len(content) if number else b""
        crc = crc32(content, crc32(length, crc))
    return crc


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Prefix errors with the position in the input."""
    try:
        yield
    except InputError as error:
        raise InputError(Wording("{where}: {error}", where=where, error=error)) from None
