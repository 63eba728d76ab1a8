"""Ranking by references that come in parts: `rank` and `minrisk.decode_parts`, a map-reduce.

Workers read parts and compute their partial statistics, which are added in the order of the parts,
so that results are bit-identical for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar

from minrisk._core.decoding import MetricLike, StrategyLike, add_texts, resolve_strategy
from minrisk._core.errors import InputError, MinriskError, brief
from minrisk._core.process import report_progress
from minrisk._core.reference_parts import PartsDecoder, PartsStrategy, PartStatistics
from minrisk._core.segment import Ranking, ReferencePart, References, Segment
from minrisk._core.strategy import Strategy, loads_model, prepare
from minrisk.io.files import Input
from minrisk.io.outputs import OrderedSink, Shard
from minrisk.io.records import RawRecord, Record, Result
from minrisk.run.driver import Run
from minrisk.run.options import EngineName, RunOptions, WorkerOptions, reads_remotely
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


def decode_parts(
    hypotheses: Sequence[str],
    parts: Iterable[Sequence[str] | ReferencePart],
    source: str | None = None,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    workers: int | None = None,
    engine: EngineName | None = None,
    address: str | None = None,
    gpus_per_worker: float | None = None,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by references that come in parts, so that not all must fit into memory.

    Utilities equal those of `decode` except for rounding, because the order of summation differs.
    They are bit-identical for any number of workers.

    Args:
        hypotheses: the texts that may be chosen.
        parts: the references: lists of texts, `References` with weights or counts, or files
            (`ReferenceFile`), which the workers read.
        source: the source text, for metrics that need it.
        metric: a metric, its name or class, or a function of hypothesis and reference; default:
            chrF.
        strategy: "aggregate" (default) or "standard", or an object of these strategies.
        workers: number of workers; default: none, this process does the work.
        engine: where the workers run, as in `decode_corpus`; "local" has one per core unless
            `workers` says otherwise.
        address: address of the Ray cluster; default: a temporary one on this machine.
        gpus_per_worker: number of GPUs of each worker; may be a fraction.
        options: options of a strategy that is given by name or class.

    Returns:
        The ranking of all hypotheses, best first.

    Raises:
        InputError: if there are no references, some have weights and others none, or the strategy
            needs all references at once.

    >>> import minrisk
    >>> hypotheses = ["the cat sat", "a dog ran"]
    >>> ranking = minrisk.decode_parts(hypotheses, [["the cat sat down"], ["a cat sat", "dogs"]])
    >>> ranking.text
    'the cat sat'
    """
    chosen = resolve_strategy(strategy, metric, options, "aggregate")
    decoder = PartsDecoder(as_parts_strategy(chosen), Segment(hypotheses, source=source))
    config = WorkerOptions(workers, engine, address, gpus_per_worker)
    blocks: Iterable[ReferencePart] = _blocks(parts)
    if reads_remotely(engine):
        blocks = tuple(blocks)
    ranking = decoder.ranking(sum_parts(decoder, blocks, config))
    return add_texts(ranking, decoder.segment, chosen)


def _blocks(parts: Iterable[Sequence[str] | ReferencePart]) -> Iterator[ReferencePart]:
    """Split parts in memory into blocks, so that one large part keeps all workers busy."""
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InputError(f"parts must be a list of lists of references; got {brief(parts)}")
    for number, part in enumerate(parts, 1):
        references = (part if isinstance(part, ReferencePart)
                      else References(part, name=f"part {number}"))
        yield from references.blocks() if isinstance(references, References) else [references]
