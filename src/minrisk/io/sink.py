"""Sinks of results: the protocol of an output, and streams that get results in order."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from minrisk.io.matrices import MatrixWriter
from minrisk.io.record import Result
from minrisk.io.shards import Shard

MISSING = -1


class UnfinishedShard(NamedTuple):
    """A shard with records that are not finished."""

    number: int
    shard: Shard
    done: Sequence[int]  # checksum of each finished record, MISSING for the others


class Sink(Protocol):
    """An output, which gets the results of a run in any order."""

    @property
    def records_broken_shards(self) -> bool:
        """Whether it can record an unreadable shard; otherwise such a shard ends the run."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of all results in the output, those of earlier runs included."""

    def is_full(self, memory: int) -> bool:
        """Whether reading should pause, because too many results wait for earlier ones.

        `memory` is the limit in bytes for everything in flight.
        """

    def remaining(self) -> Iterator[UnfinishedShard]: ...

    def begin(self) -> None:
        """Begin to write: from now on the output of an earlier run may be replaced."""

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        """Write results of a shard; returns those that are new."""

    def end(self, number: int, records: int) -> None:
        """Note that a shard was read to its end, with this number of records."""

    def fail(self, number: int, reason: str) -> None:
        """Record that a shard cannot be read to its end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Writable(Protocol):
    def write(self, text: str, /) -> object: ...


MAX_WAITING_RESULTS = 1024  # results that may wait for an earlier one


class OrderedSink:
    """Emits results in order, as soon as it is their turn."""

    records_broken_shards = False

    def __init__(self, emit: Callable[[Result], object], shard: Shard,
                 matrices: MatrixWriter | None = None) -> None:
        self._emit = emit
        self._shard = shard
        self._matrices = matrices
        self._waiting: dict[int, Result] = {}
        self._next = 0
        self._total: int | None = None
        self._done = array("q")
        self._backlog = 0  # bytes of waiting results
        self.counts: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """Results that wait for an earlier one."""
        return len(self._waiting)

    def is_full(self, memory: int) -> bool:
        return self._backlog > memory // 2

    def remaining(self) -> Iterator[UnfinishedShard]:
        if self._next != self._total:
            yield UnfinishedShard(0, self._shard, self._done)

    def begin(self) -> None:
        if self._matrices:
            self._matrices.begin()

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        fresh = [r for r in results if r.index >= self._next and r.index not in self._waiting]
        for result in fresh:
            self._waiting[result.index] = result
            self._done.extend([MISSING] * (result.index + 1 - len(self._done)))
            self._done[result.index] = result.checksum
            self._backlog += len(result.text)
            self.counts.update(result.counts)
            self.counts.update(segments=1, failed=result.failure is not None)
        while (ready := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            self._backlog -= len(ready.text)
            if ready.scores is not None and self._matrices:
                self._matrices.add(ready.index, ready.scores)
            self._emit(ready)
        return fresh

    def end(self, number: int, records: int) -> None:
        self._total = records

    def fail(self, number: int, reason: str) -> None:
        """Nothing to do: earlier results are written, and the run reports the reason."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._matrices and self._next == self._total:
            self._matrices.pack()
            self._matrices.clean()


class StreamSink(OrderedSink):
    """Standard output, a pipe or a device."""

    def __init__(self, output: Writable, shard: Shard,
                 matrices: MatrixWriter | None = None) -> None:
        super().__init__(lambda result: output.write(result.text), shard, matrices)


class QueueSink(OrderedSink):
    """A queue, for a caller that takes results as they are, and not their text."""

    def __init__(self, shard: Shard) -> None:
        self.queue: deque[Result] = deque()
        super().__init__(self.queue.append, shard)

    def is_full(self, memory: int) -> bool:
        return self.waiting >= MAX_WAITING_RESULTS
