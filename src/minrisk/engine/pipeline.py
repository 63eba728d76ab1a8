"""Shards in, shards out, on any engine: what is finished is kept, what fails is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from minrisk.engine.batches import OnError
from minrisk.engine.block import Block, Done, End, Piece, Pieces
from minrisk.engine.crew import Crew
from minrisk.engine.reading import Reading
from minrisk.errors import InputError
from minrisk.io.folder import Folder


class Engine(Protocol):
    """Has workers, and maps blocks over them in any order."""

    def staffed(self, crews: Sequence[Crew]) -> list[Crew]:
        """The same crews, with as many workers and threads as there should be."""

    def run(self, readings: Sequence[Reading], crews: Sequence[Crew]) -> Pieces:
        """What became of the blocks; one whose workers all died may be missing."""


@dataclass
class Pipeline:
    """One run into a folder. Its counts are of this run alone."""

    folder: Folder
    engine: Engine
    crews: Sequence[Crew]
    segments: int  # of a block, at most
    memory: int  # bytes of all blocks that are on their way, at most
    on_error: OnError = "skip"
    max_errors: int | None = None
    broken: set[int] = field(default_factory=set)  # shards that cannot be read to their end
    seconds: Counter[str] = field(default_factory=Counter)  # by stage, of all workers together
    read: dict[int, int] = field(default_factory=dict)  # bytes, by shard

    def run(self) -> Iterator[Done]:
        """Every block when it is on disk."""
        for segments in (self.segments, 1):  # what brings workers down is found when it is alone
            if readings := self._readings(segments):
                with closing(self.engine.run(readings, self.crews)) as pieces:
                    yield from self._take(pieces)
        for reading in self._readings(1):
            yield from self._take(map(self._refuse, reading.blocks()))

    def _readings(self, segments: int) -> list[Reading]:
        # a worker has a block in hand and one before its door
        size = self.memory // (2 * sum(crew.workers or 1 for crew in self.crews) + 2)
        return [Reading(number, shard, spans, segments, size)
                for number, shard, spans in self.folder.remaining() if number not in self.broken]

    def _take(self, pieces: Iterable[Piece]) -> Iterator[Done]:
        for piece in pieces:
            if isinstance(piece, Done):
                yield from self._keep(piece)
            elif isinstance(piece, End):
                self._end(piece)

    def _refuse(self, piece: Piece) -> Piece:
        for crew in self.crews:
            if isinstance(piece, Block):
                piece = crew.refuse(piece, "every worker that tried it died")
        return piece

    def _keep(self, done: Done) -> Iterator[Done]:
        self._check(done)
        start = perf_counter()
        added = self.folder.add(done.number, done.start, done.segments, done.text, done.counts,
                                done.failures)
        if added:
            self.seconds.update(done.seconds | {"write": perf_counter() - start})
            self.read[done.number] = max(done.read, self.read.get(done.number, 0))
            yield done

    def _check(self, done: Done) -> None:
        """A block that must not be kept is not: going on later tries it again."""
        if not done.failures:
            return
        first = done.failures[0]
        reason = f"{first['file']}:{first['line']}: {first['reason']}"
        if self.on_error == "stop":
            raise InputError(reason)
        failed = self.folder.counts["failed"] + len(done.failures)
        if self.max_errors is not None and failed > self.max_errors:
            raise InputError(f"{failed} segments failed, more than --max-errors {self.max_errors}; "
                             f"the last: {reason}")

    def _end(self, end: End) -> None:
        if end.error is None:
            start = perf_counter()
            self.folder.end(end.number, end.segments)
            self.seconds.update({"write": perf_counter() - start})
        elif self.on_error == "stop":
            raise InputError(end.error)
        else:
            self.broken.add(end.number)
            self.folder.fail(end.number, end.error)
