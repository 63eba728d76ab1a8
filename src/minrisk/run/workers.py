"""What workers do with blocks of records; the interface of engines, and the in-process engine."""

from __future__ import annotations

import pickle
import signal
import sys
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, ClassVar, Protocol, Self

from minrisk._core.errors import (
    InputError,
    MinriskError,
    MissingExtra,
    UnusableError,
    message_of,
)
from minrisk._core.process import restored_threads, set_threads, threads
from minrisk.io.files import Input
from minrisk.io.outputs import MISSING, UnfinishedShard
from minrisk.io.records import RawRecord, Record, location
from minrisk.run.stages import Stage

Seconds = dict[str, float]
# errors of pickling: deeply nested fields, or objects of user code
UNSENDABLE = (RecursionError, pickle.PicklingError, TypeError, AttributeError)


@dataclass(frozen=True)
class Block:
    """Records of one shard that are sent to a worker together."""

    shard: int
    items: Sequence[Any]  # raw records, records or results, depending on the stage
    read: int  # bytes of the shard read up to the end of the block
    seconds: Seconds = field(default_factory=dict)  # by stage
    warnings: Sequence[str] = ()

    def singles(self) -> Iterator[Block]:
        """One block per record."""
        for item in self.items:
            yield replace(self, items=[item], seconds={}, warnings=())


@dataclass(frozen=True)
class End:
    """The end of a shard, or the error that ended reading."""

    shard: int
    records: int
    error: str | None = None
    is_fatal: bool = False  # the run must end: the input has changed since it began


@dataclass(frozen=True)
class FatalItem:
    """An error that would affect every other block, too."""

    error: BaseException


@dataclass(frozen=True)
class ProgressUpdate:
    """The progress of a worker within its block."""

    what: str
    done: int
    total: int


Item = Block | End | FatalItem


@dataclass
class ShardReader:
    """Reads the unfinished records of a shard; it can be sent to another process."""

    shard: UnfinishedShard
    block: int  # maximum number of records of a block
    size: int  # maximum bytes of a block with more than one record
    _inputs: list[Input] = field(default_factory=list)  # only while they are read
    _consumed: int = 0  # bytes, after reading

    @property
    def consumed(self) -> int:
        """Bytes read so far."""
        return sum(source.consumed for source in self._inputs) or self._consumed

    def blocks(self) -> Iterator[Block | End]:
        """The records in blocks, and then the end."""
        records, before = StageTimer(self.records()), 0.0
        batch: list[RawRecord] = []
        size = 0  # bytes of the batch
        for item in records:
            length = 0 if isinstance(item, End) else _size(item)
            if batch and (isinstance(item, End) or size + length > self.size):
                yield self._block(batch, records.seconds - before)
                before, batch, size = records.seconds, [], 0
            if isinstance(item, End):
                yield item
                continue
            batch.append(item)
            size += length
            if len(batch) == self.block:  # do not wait for the next record
                yield self._block(batch, records.seconds - before)
                before, batch, size = records.seconds, [], 0

    def _block(self, batch: list[RawRecord], seconds: float) -> Block:
        return Block(self.shard.number, batch, self.consumed, {"read": seconds})

    def records(self) -> Iterator[RawRecord | End]:
        """The records one by one, and then the end."""
        number, reader, done = self.shard.number, self.shard.shard.reader, self.shard.done
        end, count = partial(End, number), 0
        try:
            self._inputs = reader.open()
            for raw in reader.records(self._inputs):
                count += 1
                known = done[raw.index] if raw.index < len(done) else MISSING
                if known == MISSING:
                    raw.shard = number
                    yield raw
                elif known != raw.checksum:
                    raise _ChangedError(f"{location(raw.file, raw.line)} has changed since the run "
                                        "began; resume with the same input, or write to another "
                                        "output")
            if count < len(done):
                names = ", ".join(file.name for file in self.shard.shard.files)
                raise _ChangedError(f"{names}: {count} records, but {len(done)} or more when the "
                                    "run began; resume with the same input, or write to another "
                                    "output")
        except MinriskError as error:  # the records before it are valid
            # not the error itself, whose traceback would keep files open
            end = partial(end, error=message_of(error), is_fatal=isinstance(error, _ChangedError))
        self._consumed, self._inputs = self.consumed, []  # frees the inputs: shards may be many
        yield end(records=count)


class _ChangedError(InputError):
    """The input has changed since the run began."""


def _size(raw: RawRecord) -> int:
    """Bytes of a raw record; 0 if the worker reads its content."""
    if isinstance(raw.content, tuple):
        return sum(len(line) for part in raw.content if part for line in part.lines)
    return len(raw.content) if isinstance(raw.content, bytes) else 0


class Work(Protocol):
    """What an engine has to do; the engine keeps asking while it works."""

    def unfinished(self, block: int | None = None) -> Sequence[ShardReader]:
        """Readers of all records without a result, in blocks of at most this many."""

    def is_over(self) -> bool:
        """Whether to stop reading, because an error ends the run."""

    def is_full(self) -> bool:
        """Whether to pause reading, because too many results wait for an earlier one."""


def read_blocks(work: Work) -> Iterator[Block | End]:
    """Read all unfinished records, for an engine that reads in this process."""
    for item in chain.from_iterable(reader.blocks() for reader in work.unfinished()):
        if work.is_over():
            return
        yield item


@dataclass(frozen=True)
class WorkerPool:
    """The stages of workers and their resources; the engine chooses where they are None."""

    stages: Sequence[Stage]
    workers: int | None = None
    threads: int | None = None  # of each worker
    gpus: float = 0.0  # of each worker
    quiet: bool = False
    segment_timeout: float | None = None  # seconds

    @property
    def name(self) -> str:
        """The name of the main stage."""
        return next((s.name for s in self.stages if s.name in ("sample", "decode")),
                    self.stages[0].name)

    @property
    def loads_model(self) -> bool:
        return any(stage.loads_model for stage in self.stages)

    def prepare(self) -> None:
        """Load the models of the stages in this process."""
        set_threads(self.threads or threads())  # otherwise every call would count the cores
        if self.quiet:
            warnings.simplefilter("ignore")
        for stage in self.stages:
            stage.prepare()

    def stream(self, items: Iterator[Any], seconds: Seconds) -> Iterator[Any]:
        """The results of the stages as they finish; adds the time of each stage to `seconds`."""
        source = last = StageTimer(items)
        clocks = []
        for stage in self.stages:
            last = StageTimer(stage(last))
            clocks.append((stage.name, last))
        try:
            yield from last
        finally:
            before = source.seconds  # a stage's clock includes the stages before it
            for name, clock in clocks:
                seconds[name] = seconds.get(name, 0.0) + clock.seconds - before
                before = clock.seconds

    def run_block(self, block: Block) -> Block | FatalItem:
        """Run the stages on a block in a worker, which is a process or a thread."""
        seconds: Seconds = dict(block.seconds)
        items: list[Any] = []
        reason = None
        with Deadline(self.segment_timeout) as deadline:
            try:
                begun = deadline.begun(block.items)
                items = list(deadline.finished(self.stream(begun, seconds)))
            except (UnusableError, MissingExtra) as error:
                return FatalItem(error)
            except BaseException as error:  # a bug in minrisk or a library
                reason = _reason(error)
        block = replace(block, seconds=seconds)
        return replace(block, items=items) if reason is None else self._one_by_one(block, reason)

    def run_pickled(self, block: Block) -> bytes:
        """The pickled result of a block, with its warnings; for workers that are processes.

        Records that cannot be pickled become failures.
        """
        with warnings.catch_warnings(record=not self.quiet) as caught:
            made = self.run_block(block)
        if isinstance(made, Block):
            shown = dict.fromkeys(message_of(one.message) for one in caught or ())
            made = replace(made, warnings=(*made.warnings, *shown))
        try:
            return pickle.dumps(made)
        except UNSENDABLE:
            assert isinstance(made, Block)
            sendable = [self._sendable(block, item) for item in made.items]
            return pickle.dumps(replace(made, items=sendable))

    def refuse(self, block: Block, reason: str) -> Block:
        """Fail all records of a block for this reason."""
        items, stages, error = iter(block.items), self.stages, InputError(reason)
        if isinstance(block.items[0], RawRecord):
            parse, *stages = stages
            items = parse(items)
        failed: Iterator[Any] = (record.failed(error) for record in items)
        for stage in stages:
            failed = stage(failed)
        return replace(block, items=list(failed))

    def _sendable(self, block: Block, item: Any) -> Any:
        try:
            pickle.dumps(item)
        except UNSENDABLE as error:
            single = replace(block, items=[raw for raw in block.items if raw.index == item.index])
            [refused] = self.refuse(single, _reason(error)).items
            return refused.replace(fields={}) if isinstance(refused, Record) else refused
        return item

    def _one_by_one(self, block: Block, reason: str) -> Block | FatalItem:
        """Run the stages on each record alone, after an unexpected error."""
        if len(block.items) == 1:
            return self.refuse(block, reason)
        items: list[Any] = []
        for single in block.singles():
            made = self.run_block(replace(single, seconds=block.seconds))
            if isinstance(made, FatalItem):
                return made
            block = replace(block, seconds=made.seconds)
            items += made.items
        return replace(block, items=items)


@dataclass
class Engine(ABC):
    """Runs the stages of worker pools, in this process or by workers elsewhere.

    Every record gets a result, even if workers die: only the record that kills its worker fails,
    by `WorkerPool.refuse`; the others are retried. An engine is used once.
    """

    name: ClassVar[str]
    has_workers: ClassVar[bool] = True  # rather than streaming records through this thread
    has_processes: ClassVar[bool] = True  # each worker is one: it may die, be ended, have GPUs
    takes_address: ClassVar[bool] = False  # the address of a cluster
    reads_remotely: ClassVar[bool] = False  # workers read the input, so it cannot be an iterator

    address: str | None = None
    memory: int = 1 << 30  # bytes of all blocks in flight

    @abstractmethod
    def start(self, pools: Sequence[WorkerPool]) -> AbstractContextManager[Sequence[WorkerPool]]:
        """Start workers and load their models; raises the error if that fails.

        The context manager returns the pools with their actual numbers of workers and threads.
        """

    @abstractmethod
    def results(self, work: Work) -> Iterator[Item]:
        """The results of all records and the ends of all shards, in any order."""


class Inline(Engine):
    """The engine in this process; records stream through all stages without blocks."""

    name = "inline"
    has_workers = False
    has_processes = False

    @contextmanager
    def start(self, pools: Sequence[WorkerPool]) -> Iterator[Sequence[WorkerPool]]:
        with restored_threads():
            for pool in pools:
                pool.prepare()
            self._pools = [replace(pool, workers=1) for pool in pools]
            yield self._pools

    def results(self, work: Work) -> Iterator[Item]:
        readers = {reader.shard.number: reader for reader in work.unfinished()}
        ends: deque[End] = deque()
        raw_records = StageTimer(_raw_records(readers.values(), work, ends))
        items: Iterator[Any] = raw_records
        seconds: Seconds = {}
        for pool in self._pools:
            items = pool.stream(items, seconds)
        for result in items:
            yield Block(result.shard, [result], readers[result.shard].consumed)
            while ends:
                yield ends.popleft()
        yield from ends
        yield Block(0, [], 0, {"read": raw_records.seconds, **seconds})


def _raw_records(readers: Iterable[ShardReader], work: Work,
                 ends: deque[End]) -> Iterator[RawRecord]:
    for item in chain.from_iterable(reader.records() for reader in readers):
        if isinstance(item, End):
            ends.append(item)
        elif work.is_over():
            return
        else:
            yield item


def workers_that_fit(gpus: float, each: float) -> int:
    """Number of workers with `each` GPUs on a machine with `gpus`; none has parts of two GPUs."""
    if each > 1 and each != int(each):
        raise InputError(f"gpus_per_worker must be a whole number, or a share of one GPU; got "
                         f"{each:g}")
    return int(gpus // each) if each >= 1 else int(gpus) * int(1 / each)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class StageTimer(Iterator[Any]):
    """An iterator that measures the time spent in it."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = iter(items)
        self.seconds = 0.0

    def __next__(self) -> Any:
        start = perf_counter()
        try:
            return next(self._items)
        finally:
            self.seconds += perf_counter() - start


class Deadline:
    """Ends the process by SIGALRM if records take too long; this also interrupts native code.

    The unfinished records share a budget: the timeout times their number.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._records = 0  # number of records in progress

    def begun(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._count(1)
            yield item

    def finished(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._count(-1)
            yield item

    def _count(self, more: int) -> None:
        self._records += more
        if self._seconds is not None:
            _set_alarm(self._seconds * self._records)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            _set_alarm(0)


def _set_alarm(seconds: float) -> None:
    if sys.platform != "win32":  # on Windows, runs refuse timeouts
        signal.setitimer(signal.ITIMER_REAL, seconds)
