"""Worker pools: the stages that a worker runs, its resources, and its treatment of a block."""

from __future__ import annotations

import pickle
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self

from minrisk._core.errors import InputError, MissingExtra, UnusableError, message_of
from minrisk._core.process import set_threads, threads
from minrisk.io.records import Record
from minrisk.pipeline.stages import Parse, Stage

Seconds = dict[str, float]
# errors of pickle: a field that is nested too deeply, or an object of user code
UNSENDABLE = (RecursionError, pickle.PicklingError, TypeError, AttributeError)


@dataclass(frozen=True)
class Block:
    """Some records of one shard, which a worker gets together."""

    shard: int
    items: Sequence[Any]  # raw records, records or results, depending on the stage
    read: int  # bytes of the shard up to the end of the block
    seconds: Seconds = field(default_factory=dict)  # by stage
    warnings: Sequence[str] = ()

    def singles(self) -> Iterator[Block]:
        """One block per record."""
        for item in self.items:
            yield replace(self, items=[item], seconds={}, warnings=())


@dataclass(frozen=True)
class End:
    """The end of a shard, or the error that broke off reading."""

    shard: int
    records: int
    error: str | None = None
    is_fatal: bool = False  # the input has changed since the run began


@dataclass(frozen=True)
class FatalItem:
    """An error that every other block would have too."""

    error: BaseException


@dataclass(frozen=True)
class ProgressUpdate:
    """The progress of a worker with its block."""

    what: str
    done: int
    total: int


Item = Block | End | FatalItem


@dataclass(frozen=True)
class WorkerPool:
    """The stages of a worker, and its resources; the runner chooses those that are None."""

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
        set_threads(self.threads or threads())  # so that the cores are not counted again and again
        if self.quiet:
            warnings.simplefilter("ignore")
        for stage in self.stages:
            stage.prepare()

    def stream(self, items: Iterator[Any], seconds: Seconds) -> Iterator[Any]:
        """The results of the stages as they finish; adds up the seconds of each stage."""
        source = last = StageTimer(items)
        clocks = []
        for stage in self.stages:
            last = StageTimer(stage(last))
            clocks.append((stage.name, last))
        try:
            yield from last
        finally:
            before = source.seconds  # a stage's time includes that of those before it
            for name, clock in clocks:
                seconds[name] = seconds.get(name, 0.0) + clock.seconds - before
                before = clock.seconds

    def run_block(self, block: Block) -> Block | FatalItem:
        """Run the stages on a block in a worker."""
        seconds: Seconds = dict(block.seconds)
        items: list[Any] = []
        reason = None
        with (warnings.catch_warnings(record=not self.quiet) as caught,
              Deadline(self.segment_timeout) as deadline):
            try:
                begun = deadline.begun(block.items)
                items = list(deadline.finished(self.stream(begun, seconds)))
            except (UnusableError, MissingExtra) as error:
                return FatalItem(error)
            except BaseException as error:  # a bug in minrisk, or in a library
                reason = _reason(error)
        shown = tuple(dict.fromkeys(message_of(w.message) for w in caught or ()))
        block = replace(block, seconds=seconds, warnings=(*block.warnings, *shown))
        return replace(block, items=items) if reason is None else self._one_by_one(block, reason)

    def refuse(self, block: Block, reason: str) -> Block:
        """Fail all records of a block for this reason."""
        error = InputError(reason)
        return replace(block, items=list(self.stream(
            (self._record(item).failed(error) for item in block.items), {})))

    def pickled(self, block: Block, made: Block | FatalItem) -> bytes:
        """The pickled result of a block; records that cannot be pickled fail."""
        try:
            return pickle.dumps(made)
        except UNSENDABLE:
            assert isinstance(made, Block)
            sendable = [self._sendable(block, item) for item in made.items]
            return pickle.dumps(replace(made, items=sendable))

    def _sendable(self, block: Block, item: Any) -> Any:
        try:
            pickle.dumps(item)
        except UNSENDABLE as error:
            single = replace(block, items=[raw for raw in block.items if raw.index == item.index])
            [refused] = self.refuse(single, _reason(error)).items
            return refused.replace(fields={}) if isinstance(refused, Record) else refused
        return item

    def _one_by_one(self, block: Block, reason: str) -> Block | FatalItem:
        """Run the stages on each record alone, after an unforeseen error."""
        if len(block.items) == 1:
            return self.refuse(block, reason)
        items: list[Any] = []
        for single in block.singles():
            made = self.run_block(replace(single, seconds=block.seconds, warnings=block.warnings))
            if isinstance(made, FatalItem):
                return made
            block = replace(block, seconds=made.seconds, warnings=made.warnings)
            items += made.items
        return replace(block, items=items)

    def _record(self, item: Any) -> Record:
        if isinstance(item, Record):
            return item
        parse = next(stage for stage in self.stages if isinstance(stage, Parse))
        return parse.record(item)


def workers_that_fit(gpus: float, each: float) -> int:
    """Number of workers with `each` GPUs on a machine with so many; none has parts of two GPUs."""
    if each > 1 and each != int(each):
        raise InputError(f"gpus_per_worker must be a whole number, or a share of one GPU; got "
                         f"{each:g}")
    return int(gpus // each) if each >= 1 else int(gpus) * int(1 / each)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class StageTimer(Iterator[Any]):
    """An iterator that measures its own time."""

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
    """Ends the process by SIGALRM if records take too long; native code cannot block it.

    All unfinished records together have the timeout times their number.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._records = 0  # begun and not finished

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
    if sys.platform != "win32":  # where a run refuses a timeout
        signal.setitimer(signal.ITIMER_REAL, seconds)
