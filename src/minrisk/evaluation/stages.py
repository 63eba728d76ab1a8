"""A validation as a pipeline: its reader, its stage, and how results are written and read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.segment import Segment
from minrisk.evaluation.study import Study, TrialResults
from minrisk.io.files import Input, text_of
from minrisk.io.formats import json_line
from minrisk.io.records import RawRecord, Reader, Record, ShardedReader, error_location
from minrisk.io.segments import parse
from minrisk.io.writers import failure_row
from minrisk.run.stages import in_batches

_TYPICAL = 32  # segments whose sizes decide which budgets are tried


@dataclass
class PreviewReader:
    """A reader that can give its first records in advance, even from a pipe, and again later.

    A pickled copy, as other processes get it, reads its files from the beginning.
    """

    reader: ShardedReader
    _inputs: list[Input] = field(default_factory=list)
    _first: list[RawRecord] = field(default_factory=list)
    _records: Iterator[RawRecord] | None = None  # after the first ones; None before `typical`

    def __reduce__(self) -> tuple[Any, ...]:
        return PreviewReader, (self.reader,)

    def typical(self) -> list[Segment]:
        """The segments of the first records."""
        self._inputs = self.reader.open()
        self._records = others = self.reader.records(self._inputs)
        try:
            for raw in islice(others, _TYPICAL):
                self._first.append(raw)
        except MinriskError as error:  # raised again after the records before it
            self._records = others = _raising(error)
        records = [self.reader.parse(raw) for raw in self._first]
        found = [record.segment for record in records if record.segment]
        if not found:
            next(others, None)  # raises the deferred read error, if any
            names = ", ".join(source.name for source in self._inputs)
            reason = next((record.message for record in records),
                          f"{names}: no segments; wanted JSON lines with samples" if names
                          else "no segments; at least one is needed")
            raise InputError(reason)
        return found

    def open(self) -> list[Input]:
        return self.reader.open() if self._records is None else self._inputs

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        if self._records is None:
            return self.reader.records(inputs)
        return chain(self._first, self._records)

    def shards(self) -> Sequence[Reader]:
        return self.reader.shards()

    def parse(self, raw: RawRecord) -> Record:
        return self.reader.parse(raw)


def _raising(error: MinriskError) -> Iterator[RawRecord]:
    raise error
    yield


@dataclass(frozen=True)
class EvaluatedRecord(Record):
    """A record with the results of all trials."""

    results: TrialResults | None = None


@dataclass(frozen=True)
class Evaluate:
    """From a segment to what every strategy made of it."""

    name: ClassVar[str] = "evaluate"
    loads_model: ClassVar[bool] = True

    study: Study

    def prepare(self) -> None:
        self.study.metric.prepare()

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        # one at a time, because times are measured; failures are those of every run
        return in_batches(items, 1, self._evaluate, "skip")

    def _evaluate(self, records: Sequence[Record]) -> list[Record]:
        return [record.extended(EvaluatedRecord, results=self.study.evaluate(record.segment))
                for record in records if record.segment is not None]


def results_of(record: Record) -> TrialResults | None:
    """The results of all trials; None if the record failed."""
    return record.results if isinstance(record, EvaluatedRecord) else None


@dataclass(frozen=True)
class TrialResultsWriter:
    """Writes the results of all trials on every segment."""

    def __call__(self, record: Record) -> str:
        results = results_of(record)
        assert results is not None
        return json_line({"id": record.id} | results.as_json())

    def failed(self, record: Record) -> str:
        return json_line(failure_row(record))

    def counts(self, record: Record) -> Mapping[str, int]:
        return {}


def read_trial_results(source: Input, advice: str,
                  labels: Sequence[str] = ()) -> Iterator[TrialResults]:
    """Of the segments that did not fail, as `TrialResultsWriter` wrote them.

    Args:
        source: the file.
        advice: what to do if it is another file.
        labels: the trials that every segment must have; those of the first one unless given.
    """
    for line in source:
        with error_location(source.where):
            fields = parse(text_of(line, source.number), advice)
            if "error" not in fields:
                found = TrialResults.from_json(fields, labels)
                labels = labels or list(found.outcomes)
                yield found
