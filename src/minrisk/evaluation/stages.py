"""The pipeline of `minrisk validate`: reader, stage, and files of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.segment import Segment
from minrisk.evaluation.coverage import GOLD, golds_of
from minrisk.evaluation.study import Study, TrialResults
from minrisk.io.files import Input, text_of
from minrisk.io.formats import json_line
from minrisk.io.records import RawRecord, Reader, Record, ShardedReader, error_location
from minrisk.io.segments import parse
from minrisk.io.writers import Writer
from minrisk.run.stages import in_batches

_TYPICAL = 32  # segments whose sizes determine the budgets to try


@dataclass
class PreviewReader:
    """A reader that can look ahead at its first records, even in a pipe, and still return them.

    A pickled copy, for another process, reads its files from the beginning.
    """

    reader: ShardedReader
    _inputs: list[Input] = field(default_factory=list)
    _first: list[RawRecord] = field(default_factory=list)
    _records: Iterator[RawRecord] | None = None  # those after `_first`; None before `typical`

    def __reduce__(self) -> tuple[Any, ...]:
        return PreviewReader, (self.reader,)

    def typical(self) -> list[Segment]:
        """The segments of the first records."""
        self._inputs = self.reader.open()
        self._records = others = self.reader.records(self._inputs)
        try:
            for raw in islice(others, _TYPICAL):
                self._first.append(raw)
        except MinriskError as error:  # re-raised when iteration gets there
            self._records = others = _raising(error)
        records = [self.reader.parse(raw) for raw in self._first]
        segments = [record.segment for record in records if record.segment]
        if not segments:
            next(others, None)  # raises a deferred read error
            names = ", ".join(source.name for source in self._inputs)
            reason = next((record.message for record in records),
                          f"{names}: no segments; expected JSON lines with samples" if names
                          else "no segments; at least one is needed")
            raise InputError(reason)
        return segments

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
    """Runs all trials on each segment."""

    name = "evaluate"
    loads_model = True

    study: Study
    gold: str = GOLD  # the field with the gold answer

    def prepare(self) -> None:
        self.study.metric.prepare()

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        # one at a time, because times are measured; failed records are skipped as in every run
        return in_batches(items, 1, self._evaluate, "skip")

    def _evaluate(self, records: Sequence[Record]) -> list[Record]:
        judged = [(record, record.segment, golds_of(record.fields.get(self.gold)))
                 for record in records]
        return [record.extended(EvaluatedRecord, results=self.study.evaluate(segment, golds))
                for record, segment, golds in judged if segment is not None]


def results_of(record: Record) -> TrialResults | None:
    """The results of all trials; None if the record failed."""
    return record.results if isinstance(record, EvaluatedRecord) else None


@dataclass(frozen=True)
class TrialResultsWriter(Writer):
    """Writes the results of all trials as JSON, one line per segment."""

    def __call__(self, record: Record) -> str:
        results = results_of(record)
        assert results is not None
        return json_line({"id": record.id} | results.as_json())


def read_trial_results(source: Input, advice: str,
                  labels: Sequence[str] = ()) -> Iterator[TrialResults]:
    """The results that `TrialResultsWriter` wrote, without failed segments.

    Args:
        source: the file.
        advice: for the error message if this is a different kind of file.
        labels: the trials that every segment must have; default: those of the first segment.
    """
    for line in source:
        with error_location(source.where):
            fields = parse(text_of(line, source.number), advice)
            if "error" not in fields:
                results = TrialResults.from_json(fields, labels)
                labels = labels or list(results.outcomes)
                yield results
