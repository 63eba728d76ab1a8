"""A map-reduce over parts of the references of one segment.

Workers read parts and compute their partial statistics, which are added in the order of the parts,
so that results are bit-identical for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import ClassVar

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.process import report_progress
from minrisk._core.reference_parts import PartsDecoder, PartsStrategy, PartStatistics
from minrisk._core.segment import ReferencePart
from minrisk._core.strategy import Strategy, loads_model, prepare
from minrisk.io.files import Input
from minrisk.io.outputs import OrderedSink, Shard
from minrisk.io.records import RawRecord, Record, Result
from minrisk.run.driver import Run
from minrisk.run.options import RunOptions, WorkerOptions
from minrisk.run.stages import Map, collect

MAX_WAITING = 16  # finished parts that wait for an earlier one


@dataclass(frozen=True)
class PartRecord(Record):
    """A part of the references, with its statistics once they are computed."""

    part: ReferencePart | None = None
    statistics: PartStatistics | None = None


@dataclass(frozen=True)
class ReferencePartReader:
    """A reader whose records are parts of the references; workers read their content."""

    parts: Iterable[ReferencePart]

    def open(self) -> list[Input]:
        return []

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        for index, part in enumerate(self.parts):
            yield RawRecord(index, part.name, 0, part, 0)

    def parse(self, raw: RawRecord) -> PartRecord:
        return PartRecord.of(raw).replace(part=raw.content)


@dataclass(frozen=True)
class ComputePartialStatistics:
    """The stage that computes the partial statistics of a part."""

    name: ClassVar[str] = "statistics"

    decoder: PartsDecoder

    @property
    def loads_model(self) -> bool:
        return loads_model(self.decoder.strategy)

    def prepare(self) -> None:
        prepare(self.decoder.strategy)

    def __call__(self, items: Iterator[PartRecord]) -> Iterator[PartRecord]:
        for record in items:
            try:
                yield record if record.part is None or record.error else record.replace(
                    statistics=self.decoder.statistics(record.part))
            except MinriskError as error:
                yield record.failed(error)


class PartSum(OrderedSink):
    """A sink that adds the statistics of parts in order."""

    def __init__(self, parts: Iterable[ReferencePart]) -> None:
        self.total: PartStatistics | None = None
        super().__init__(self._add, Shard("", (), ReferencePartReader(parts)))

    def is_full(self, memory: int) -> bool:
        return self.waiting >= MAX_WAITING

    def _add(self, result: Result) -> None:
        self.total = result.value if self.total is None else self.total + result.value
        done = result.index + 1
        report_progress("parts", done, done + self.waiting)


def sum_parts(decoder: PartsDecoder, parts: Iterable[ReferencePart],
              workers: WorkerOptions) -> PartStatistics:
    """The sum of the statistics of all parts."""
    sink = PartSum(parts)
    # this reader only parses: workers get the parts as records
    stages = (Map("parse", ReferencePartReader(()).parse), ComputePartialStatistics(decoder),
              collect(attrgetter("statistics")))
    given = {field.name: getattr(workers, field.name) for field in fields(WorkerOptions)}
    options = RunOptions(**given, on_error="stop")
    run = Run(sink, [options.pool(*stages)], options.make_engine(), options, block=1)
    for _ in run.results():
        pass
    if sink.total is None:
        raise InputError("expected at least one part with references, got none")
    return sink.total


def as_parts_strategy(strategy: Strategy) -> PartsStrategy:
    """The strategy, checked to be able to rank from parts of the references."""
    if not isinstance(strategy, PartsStrategy):
        raise InputError(f"strategy {strategy.name!r} needs all references at once; "
                         "choose aggregate or standard to use them in parts")
    if strategy.metric.needs_segment:
        raise InputError(f"the scores of {strategy.metric.name!r} with these options depend on all "
                         "references at once; choose others to use references in parts")
    return strategy
