"""The unit of work: consecutive segments of a shard, read, worked on and kept as one."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from minrisk.io.folder import Failure
from minrisk.io.shards import Shard

Seconds = dict[str, float]


class Line(NamedTuple):
    """A segment as the input has it."""

    number: int
    content: bytes


@dataclass(frozen=True)
class Block:
    """Segments on their way."""

    number: int  # of the shard
    shard: Shard
    start: int  # the place of its first segment in the shard
    items: Sequence[Any]  # lines, or prompts with their samples
    read: int  # bytes of the shard, up to its end
    is_drawn: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    seconds: Seconds = field(default_factory=dict)  # by stage

    def singles(self) -> Iterator[Block]:
        """A block for each segment; what was counted goes with the first."""
        rest = replace(self, counts={}, seconds={})
        for number, item in enumerate(self.items):
            yield replace(rest if number else self, start=self.start + number, items=[item])


@dataclass(frozen=True)
class Done:
    """What became of a block."""

    number: int
    start: int
    segments: int
    text: str
    read: int
    counts: dict[str, int]
    failures: Sequence[Failure]
    seconds: Seconds


@dataclass(frozen=True)
class End:
    """A shard was read to its end, or to where it breaks off: so many segments."""

    number: int
    segments: int
    error: str | None = None


Piece = Block | Done | End
Pieces = Generator[Piece, None, None]  # which can be closed before its end
