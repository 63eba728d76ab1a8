"""What a runner does: it has workers, and takes blocks through their stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

from minrisk._core.threads import restored_threads
from minrisk.pipeline.reading import Reading
from minrisk.pipeline.workers import Block, End, Piece, Seconds, WorkerPool

Gate = Callable[[], bool]  # whether no more is to be read for now, or at all


class Running(Protocol):
    """Workers that are ready."""

    @property
    def pools(self) -> Sequence[WorkerPool]:
        """With as many workers and threads as there are."""

    def run(self, readings: Sequence[Reading], stop: Gate, wait: Gate) -> Iterator[Piece]:
        """What became of the blocks, in any order; one whose workers all died may be missing.

        Nothing more is read when it is to stop, and nothing while it is to wait.
        """


class Runner(Protocol):
    name: str

    def start(self, pools: Sequence[WorkerPool]) -> AbstractContextManager[Running]:
        """Workers that have their models, or the reason why that cannot be."""


@dataclass(frozen=True)
class Inline:
    """This process: records stream through all stages, and none waits for a block to be whole."""

    name = "inline"

    @contextmanager
    def start(self, pools: Sequence[WorkerPool]) -> Iterator[Running]:
        with restored_threads():
            for pool in pools:
                pool.prepare()
            yield _Inline([replace(pool, workers=1) for pool in pools])


@dataclass(frozen=True)
class _Inline:
    pools: Sequence[WorkerPool]

    def run(self, readings: Sequence[Reading], stop: Gate, wait: Gate) -> Iterator[Piece]:
        ends: list[End] = []
        position: dict[int, int] = {}  # bytes read, by shard
        seconds: Seconds = {}
        items: Iterator[Any] = _raw_records(readings, stop, ends, position, seconds)
        for pool in self.pools:
            items = pool.stream(items, seconds)
        for result in items:
            yield Block(result.shard, [result], position[result.shard])
            while ends:
                yield ends.pop(0)
        yield from ends
        yield Block(0, [], 0, seconds)


def _raw_records(readings: Sequence[Reading], stop: Gate, ends: list[End],
                 position: dict[int, int], seconds: Seconds) -> Iterator[Any]:
    for piece in chain.from_iterable(reading.blocks() for reading in readings):
        if isinstance(piece, End):
            ends.append(piece)
            continue
        position[piece.shard] = piece.read
        seconds["read"] = seconds.get("read", 0.0) + piece.seconds["read"]
        for raw in piece.items:
            if stop():
                return
            yield raw
