"""`minrisk.decode_parts`: a map-reduce over parts of the references of one segment.

Workers read the parts and compute their partial statistics, which are added in the order in which
the parts were given: the number of workers changes no bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from minrisk._core.decoding import MetricLike, StrategyLike, add_texts, resolve_strategy
from minrisk._core.errors import InputError, MinriskError
from minrisk._core.progress import report_progress
from minrisk._core.reference_parts import PartsDecoder, PartsStrategy, PartStatistics
from minrisk._core.references import ReferencePart, References
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy, is_light, prepare
from minrisk.io.files import Input
from minrisk.io.record import RawRecord, Record, Result
from minrisk.io.shards import Shard
from minrisk.io.sink import OrderedSink
from minrisk.pipeline.processes import Processes
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.runner import Inline, Runner
from minrisk.pipeline.stages import Parse, Write
from minrisk.pipeline.workers import WorkerPool

Engine = Literal["local", "ray"]
MAX_WAITING = 16  # finished parts that wait for an earlier one


@dataclass(frozen=True)
class ReferencePartReader:
    """A reader whose records are parts of the references; the worker reads their content."""

    parts: Iterable[ReferencePart]

    def open(self) -> list[Input]:
        return []

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        for index, part in enumerate(self.parts):
            yield RawRecord(index, part.name, 0, part, 0)

    def parse(self, raw: RawRecord) -> Record:
        return replace(Record.of(raw), value=raw.content)


@dataclass(frozen=True)
class ComputePartialStatistics:
    """The stage that computes the partial statistics of a part."""

    name: ClassVar[str] = "decode"

    decoder: PartsDecoder

    @property
    def is_light(self) -> bool:
        return is_light(self.decoder.strategy)

    def prepare(self) -> None:
        prepare(self.decoder.strategy)

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        for record in items:
            try:
                yield record if record.error else replace(
                    record, value=self.decoder.statistics(record.value))
            except MinriskError as error:
                yield record.failed(error)


@dataclass(frozen=True)
class EmptyWriter:
    """A writer for records whose result is a value, not text."""

    def __call__(self, record: Record) -> str:
        return ""

    def failed(self, record: Record) -> str:
        return ""

    def counts(self, record: Record) -> Mapping[str, int]:
        return {}


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


def sum_parts(decoder: PartsDecoder, parts: Iterable[ReferencePart], runner: Runner,
              workers: int | None = None, gpus: float = 0) -> PartStatistics:
    """The statistics of all parts together."""
    sink = PartSum(parts)
    # without the parts, which the workers get as records
    stages = (Parse(ReferencePartReader(())), ComputePartialStatistics(decoder),
              Write(EmptyWriter()))
    run = Run(sink, [WorkerPool(stages, workers, gpus=gpus)], runner, Policy(1, on_error="stop"))
    for _ in run.results():
        pass
    if sink.total is None:
        raise InputError("expected at least one part with references, got none")
    return sink.total


def decode_parts(
    hypotheses: Sequence[str],
    parts: Iterable[Sequence[str] | ReferencePart],
    source: str | None = None,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    gpus_per_worker: float = 0,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by references that come in parts, of which only some are held in memory.

    Utilities are those of `decode` except for rounding, because sums are taken in another order.
    The number of workers changes no bit of them.

    Args:
        hypotheses: the texts that may be chosen.
        parts: the references: lists of texts, `References` with weights or counts, or files
            (`ReferenceFile`), which the workers read.
        source: the source text, for metrics that need it.
        metric: a metric, its name or class, or a function of hypothesis and reference; chrF unless
            given.
        strategy: "aggregate" (unless given) or "standard", or an object of them.
        workers: number of worker processes; this process does the work unless given.
        engine: "local" for processes of this machine, "ray" for a Ray cluster (`minrisk[ray]`).
        address: address of the Ray cluster; a temporary one on this machine unless given.
        gpus_per_worker: GPUs of each worker; may be a fraction.
        options: options of a strategy that is given by name or class.

    Returns:
        All hypotheses, best first.

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
    runner = make_runner(engine, workers, address, gpus_per_worker)
    blocks: Iterable[ReferencePart] = _blocks(parts)
    if engine == "ray":
        blocks = tuple(blocks)  # to be sent to the cluster
    ranking = decoder.ranking(sum_parts(decoder, blocks, runner, workers, gpus_per_worker))
    return add_texts(ranking, decoder.segment, chosen)


def as_parts_strategy(strategy: Strategy) -> PartsStrategy:
    """The strategy, if it can rank from parts of the references."""
    if not isinstance(strategy, PartsStrategy):
        raise InputError(f"strategy {strategy.name!r} needs all references at once; "
                         "choose aggregate or standard to use them in parts")
    return strategy


def make_runner(engine: Engine, workers: int | None, address: str | None,
                gpus_per_worker: float) -> Runner:
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1; got {workers}")
    if engine == "ray":
        from minrisk.pipeline.ray import Ray  # here, for it is an extra, and slow to import

        return Ray(address)
    if address is not None:
        raise InputError("address= needs engine='ray'")
    return Processes() if (workers or 1) > 1 or gpus_per_worker else Inline()


def _blocks(parts: Iterable[Sequence[str] | ReferencePart]) -> Iterator[ReferencePart]:
    """Split parts in memory into blocks, so that one large part keeps all workers busy."""
    for number, part in enumerate(parts, 1):
        found = (part if isinstance(part, ReferencePart)
                 else References(part, name=f"part {number}"))
        yield from found.blocks() if isinstance(found, References) else [found]
