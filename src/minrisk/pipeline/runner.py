"""What a runner does: it has workers, and takes blocks through their stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

from minrisk._core.threads import restored_threads
from minrisk.pipeline.reading import BlockReader
from minrisk.pipeline.workers import Block, End, Item, Seconds, WorkerPool

Condition = Callable[[], bool]  # whether no more is to be read for now, or at all


class RunningWorkers(Protocol):
    """Workers that are ready."""

    @property
    def pools(self) -> Sequence[WorkerPool]:
        """With as many workers and threads as there are."""

    def run(self, readers: Sequence[BlockReader], stop: Condition,
            wait: Condition) -> Iterator[Item]:
        """What became of the blocks, in any order; one whose workers all died may be missing.

        Nothing more is read when it is to stop, and nothing while it is to wait.
        """


class Runner(Protocol):
    name: str

    def start(self, pools: Sequence[WorkerPool]) -> AbstractContextManager[RunningWorkers]:
        """Workers that have their models, or the reason why that cannot be."""


@dataclass(frozen=True)
class Inline:
    """This process: records stream through all stages, and none waits for a block to be whole."""

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
