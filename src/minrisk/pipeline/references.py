"""One segment whose references come in parts: workers read them, and what they say is added up.

Parts are added in the order in which they were given, whoever finished first: the number of workers
changes no bit of the result.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from minrisk._core.decoding import MetricLike, StrategyLike, add_texts, chosen_strategy
from minrisk._core.errors import InputError, MinriskError
from minrisk._core.progress import tell
from minrisk._core.reference_parts import Part, Question, TakesParts
from minrisk._core.references import References, Shard
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy
from minrisk.io.files import Input
from minrisk.io.record import RawRecord, Record, Result
from minrisk.io.shards import Shard as OutputShard
from minrisk.io.sink import Remaining
from minrisk.pipeline.processes import Processes
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.runner import Inline, Runner
from minrisk.pipeline.stages import Parse, Write
from minrisk.pipeline.workers import WorkerPool

Engine = Literal["local", "ray"]
MAX_WAITING = 16  # parts that wait for one before them


@dataclass(frozen=True)
class ReferenceParts:
    """Parts of the references as records; whoever works on one reads it."""

    parts: Iterable[Shard]

    def open(self) -> list[Input]:
        return []

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        for index, part in enumerate(self.parts):
            yield RawRecord(index, part.name, 0, part, 0)

    def parse(self, raw: RawRecord) -> Record:
        return replace(Record.of(raw), value=raw.content)


@dataclass(frozen=True)
class PartialStatistics:
    """From some references to what they say of the hypotheses."""

    name: ClassVar[str] = "decode"
    is_light: ClassVar[bool] = True

    question: Question

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        for record in items:
            try:
                yield record if record.error else replace(record,
                                                          value=self.question.part(record.value))
            except MinriskError as error:
                yield record.failed(error)


@dataclass(frozen=True)
class NoText:
    """A writer for what is no text."""

    def __call__(self, record: Record) -> str:
        return ""

    def failed(self, record: Record) -> str:
        return ""

    def counts(self, record: Record) -> Mapping[str, int]:
        return {}


class Sum:
    """A sink that adds parts up in order."""

    records_broken_shards = False

    def __init__(self, parts: Iterable[Shard]) -> None:
        self._shard = OutputShard("", (), ReferenceParts(parts))
        self._waiting: dict[int, Part] = {}
        self._next = 0
        self._is_read = False
        self.total: Part | None = None
        self.counts: Counter[str] = Counter()

    def is_full(self, memory: int) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def remaining(self) -> Iterator[Remaining]:
        if not self._is_read:
            yield Remaining(0, self._shard, array("q"))

    def begin(self) -> None:
        pass

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        self._waiting |= {result.index: result.value for result in results}
        while (part := self._waiting.pop(self._next, None)) is not None:
            self.total = part if self.total is None else self.total + part
            self._next += 1
            tell("parts", self._next, self._next + len(self._waiting))
        self.counts.update(segments=len(results))
        return list(results)

    def end(self, number: int, records: int) -> None:
        self._is_read = True

    def fail(self, number: int, reason: str) -> None:
        raise InputError(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def add_up(question: Question, parts: Iterable[Shard], runner: Runner, workers: int | None = None,
           gpus: float = 0) -> Part:
    """What all parts say."""
    sink = Sum(parts)
    # workers parse what they are given, and have no need of the others
    stages = (Parse(ReferenceParts(())), PartialStatistics(question), Write(NoText()))
    run = Run(sink, [WorkerPool(stages, workers, gpus=gpus)], runner, Policy(1, on_error="stop"))
    for _ in run.results():
        pass
    if sink.total is None:
        raise InputError("no references; at least one file or list of them is wanted")
    return sink.total


def decode_shards(
    hypotheses: Sequence[str],
    shards: Iterable[Sequence[str] | Shard],
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
    """Rank hypotheses by references that come in shards, of which only some are held at a time.

    A shard is a list of texts, `References` with weights, or a `ReferenceFile`, which its worker
    reads. Workers are processes of this machine, of which this is the only one unless
    told otherwise, or tasks on Ray. Metric, strategy and options are those of `decode`.

    Utilities are those of `decode` but for rounding, because sums are taken in another order; how
    many workers there are changes no bit of them.
    """
    chosen = chosen_strategy(strategy, metric, options, "aggregate")
    question = Question(taking_parts(chosen), Segment(hypotheses, source=source))
    runner = runner_for(engine, workers, address, gpus_per_worker)
    parts: Iterable[Shard] = _blocks(shards)
    if engine == "ray":
        parts = tuple(parts)  # which travel to the cluster
    ranking = question.ranking(add_up(question, parts, runner, workers, gpus_per_worker))
    return add_texts(ranking, question.segment, chosen)


def taking_parts(strategy: Strategy) -> TakesParts:
    if not isinstance(strategy, TakesParts):
        raise InputError(f"strategy {strategy.name!r} needs all references at once; "
                         "for parts of them, choose aggregate or standard")
    return strategy


def runner_for(engine: Engine, workers: int | None, address: str | None,
               gpus_per_worker: float) -> Runner:
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers; at least one is wanted")
    if engine == "ray":
        from minrisk.pipeline.ray import Ray  # here, for it is an extra, and slow to import

        return Ray(address)
    if address is not None:
        raise InputError("address= goes with engine='ray'")
    return Processes() if (workers or 1) > 1 or gpus_per_worker else Inline()


def _blocks(shards: Iterable[Sequence[str] | Shard]) -> Iterator[Shard]:
    """What is in memory is cut, so that there is work for all in one large shard too."""
    for number, shard in enumerate(shards, 1):
        found = shard if isinstance(shard, Shard) else References(shard, name=f"shard {number}")
        yield from found.blocks() if isinstance(found, References) else [found]
