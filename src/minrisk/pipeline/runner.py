"""The interface of runners, and the runner in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

from minrisk._core.process import restored_threads
from minrisk.pipeline.reading import BlockReader
from minrisk.pipeline.workers import Block, End, Item, Seconds, WorkerPool

Condition = Callable[[], bool]  # whether to stop or to pause reading


class RunningWorkers(Protocol):
    """Workers that have loaded their models."""

    @property
    def pools(self) -> Sequence[WorkerPool]:
        """The pools with their actual numbers of workers and threads."""

    def run(self, readers: Sequence[BlockReader], stop: Condition,
            wait: Condition) -> Iterator[Item]:
        """The results of all blocks, in any order; a block may be missing if its workers died.

        Reading ends when `stop` is true, and pauses while `wait` is true.
        """


class Runner(Protocol):
    """Runs the stages of worker pools: in this process, in worker processes, or on Ray."""

    name: str

    def start(self, pools: Sequence[WorkerPool]) -> AbstractContextManager[RunningWorkers]:
        """Start workers and load their models; raises the error if that fails."""


@dataclass(frozen=True)
class Inline:
    """The runner in this process: records go through all stages one by one, not in blocks."""

    name = "inline"

    @contextmanager
    def start(self, pools: Sequence[WorkerPool]) -> Iterator[RunningWorkers]:
        with restored_threads():
            for pool in pools:
                pool.prepare()
            yield _RunningInline([replace(pool, workers=1) for pool in pools])


@dataclass(frozen=True)
class _RunningInline:
    pools: Sequence[WorkerPool]

    def run(self, readers: Sequence[BlockReader], stop: Condition,
            wait: Condition) -> Iterator[Item]:
        ends: list[End] = []
        position: dict[int, int] = {}  # bytes read, by shard
        seconds: Seconds = {}
        items: Iterator[Any] = _raw_records(readers, stop, ends, position, seconds)
        for pool in self.pools:
            items = pool.stream(items, seconds)
        for result in items:
            yield Block(result.shard, [result], position[result.shard])
            while ends:
                yield ends.pop(0)
        yield from ends
        yield Block(0, [], 0, seconds)


def _raw_records(readers: Sequence[BlockReader], stop: Condition, ends: list[End],
                 position: dict[int, int], seconds: Seconds) -> Iterator[Any]:
    for item in chain.from_iterable(reader.blocks() for reader in readers):
        if isinstance(item, End):
            ends.append(item)
            continue
        position[item.shard] = item.read
        seconds["read"] = seconds.get("read", 0.0) + item.seconds["read"]
        for raw in item.items:
            if stop():
                return
            yield raw
