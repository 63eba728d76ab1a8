"""A shard cut into blocks of records, without those that an earlier run has finished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from minrisk._core.errors import InputError, MinriskError
from minrisk.io.files import Input
from minrisk.io.record import RawRecord, located
from minrisk.io.sink import MISSING, UnfinishedShard
from minrisk.pipeline.workers import Block, End


@dataclass(frozen=True)
class BlockReader:
    """What is to be read of a shard, by whoever reads it."""

    what: UnfinishedShard
    records: int  # of a block, at most
    size: int  # bytes of a block, at most, if it has more than one record

    def blocks(self) -> Iterator[Block | End]:
        return iter(_BlockIterator(self))


class _ChangedError(InputError):
    """The input is not the one that the run was begun with."""


class _BlockIterator:
    def __init__(self, reading: BlockReader) -> None:
        self._reading = reading
        self._inputs: list[Input] = []
        self._count = 0  # of all records so far
        self._since = perf_counter()

    def __iter__(self) -> Iterator[Block | End]:
        number, batch, size = self._reading.what.number, list[RawRecord](), 0
        end = partial(End, number)
        try:
            for raw in self._remaining():
                length = _size(raw)
                if batch and size + length > self._reading.size:
                    yield self._block(batch)
                    batch, size, self._since = [], 0, perf_counter()  # not what others took
                batch.append(replace(raw, shard=number))
                size += length
                if len(batch) == self._reading.records:  # before the next one is waited for
                    yield self._block(batch)
                    batch, size, self._since = [], 0, perf_counter()
        except MinriskError as error:  # what came before it is still good
            # not the error itself: it would keep this frame, and with it open files
            end = partial(end, error=str(error), is_fatal=isinstance(error, _ChangedError))
        if batch:
            yield self._block(batch)
        yield end(records=self._count)

    def _remaining(self) -> Iterator[RawRecord]:
        done, shard = self._reading.what.done, self._reading.what.shard
        self._inputs = shard.reader.open()
        for raw in shard.reader.records(self._inputs):
            self._count += 1
            known = done[raw.index] if raw.index < len(done) else MISSING
            if known == MISSING:
                yield raw
            elif known != raw.checksum:
                raise _ChangedError(f"{located(raw.file, raw.line)} is not what it was when the "
                                    "run was begun; resume with the same input, or write elsewhere")
        if self._count < len(done):
            raise _ChangedError(f"{', '.join(f.name for f in shard.files)}: {self._count} records, "
                                f"but {len(done)} or more when the run was begun; resume with the "
                                "same input, or write elsewhere")

    def _block(self, batch: list[RawRecord]) -> Block:
        return Block(self._reading.what.number, batch, sum(i.consumed for i in self._inputs),
                     {"read": perf_counter() - self._since})


def _size(raw: RawRecord) -> int:
    """Bytes of what was read; nothing where whoever works on the record reads it."""
    if isinstance(raw.content, tuple):
        return sum(len(line) for part in raw.content if part for line in part.lines)
    return len(raw.content) if isinstance(raw.content, bytes) else 0
