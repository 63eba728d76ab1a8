"""A shard cut into blocks, without what an earlier run has done of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from minrisk.engine.block import Block, End, Line
from minrisk.errors import MinriskError
from minrisk.io.inputs import open_input
from minrisk.io.shards import Shard

Span = tuple[int, int]  # of segments, half open
_NEVER = (1 << 62, 1 << 62)


@dataclass(frozen=True)
class Reading:
    """What is to be read of a shard."""

    number: int
    shard: Shard
    done: Sequence[Span]  # in order
    segments: int  # of a block, at most
    size: int  # bytes of a block, at most, if it has more than one segment

    def blocks(self) -> Iterator[Block | End]:
        return iter(_Reader(self))


class _Reader:
    def __init__(self, reading: Reading) -> None:
        self._of = reading
        self._source = open_input(reading.shard.place)
        self._count = 0  # of all segments so far
        self._error: str | None = None
        self._since = perf_counter()

    def __iter__(self) -> Iterator[Block | End]:
        lines: list[Line] = []
        start = size = 0
        for index, line in self._left():
            if lines and (len(lines) == self._of.segments or index > start + len(lines)
                          or size + len(line.content) > self._of.size):
                yield self._block(start, lines)
                lines, size, self._since = [], 0, perf_counter()  # not what others took
            if not lines:
                start = index
            lines.append(line)
            size += len(line.content)
        if lines:
            yield self._block(start, lines)
        yield End(self._of.number, self._count, self._error)

    def _left(self) -> Iterator[tuple[int, Line]]:
        """The segments that are not done, with their places, to where the file breaks off."""
        spans = iter(self._of.done)
        start, stop = next(spans, _NEVER)
        try:
            for content in self._of.shard.lines(self._source):
                index, self._count = self._count, self._count + 1
                if index >= stop:
                    start, stop = next(spans, _NEVER)
                if not start <= index < stop:
                    yield index, Line(self._source.number, content)
        except MinriskError as error:
            self._error = str(error)

    def _block(self, start: int, lines: list[Line]) -> Block:
        return Block(self._of.number, self._of.shard, start, lines, self._source.consumed,
                     seconds={"read": perf_counter() - self._since})
