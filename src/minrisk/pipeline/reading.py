"""Reads the unfinished records of a shard in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from minrisk._core.errors import InputError, MinriskError, message_of
from minrisk.io.files import Input
from minrisk.io.outputs import MISSING, UnfinishedShard
from minrisk.io.records import RawRecord, location
from minrisk.pipeline.workers import Block, End


@dataclass(frozen=True)
class BlockReader:
    """Reads the unfinished records of a shard in blocks; it can be sent to another process."""

    shard: UnfinishedShard
    records: int  # maximum per block
    size: int  # maximum bytes of a block with more than one record

    def blocks(self) -> Iterator[Block | End]:
        return iter(_BlockIterator(self))


class _ChangedError(InputError):
    """The input has changed since the run began."""


class _BlockIterator:
    def __init__(self, reader: BlockReader) -> None:
        self._reader = reader
        self._inputs: list[Input] = []
        self._count = 0  # all records so far
        self._since = perf_counter()

    def __iter__(self) -> Iterator[Block | End]:
        number, batch, size = self._reader.shard.number, list[RawRecord](), 0
        end = partial(End, number)
        try:
            for raw in self._remaining():
                length = _size(raw)
                if batch and size + length > self._reader.size:
                    yield self._block(batch)
                    batch, size, self._since = [], 0, perf_counter()  # reading time only
                raw.shard = number
                batch.append(raw)
                size += length
                if len(batch) == self._reader.records:  # without waiting for the next record
                    yield self._block(batch)
                    batch, size, self._since = [], 0, perf_counter()
        except MinriskError as error:  # the records before it are valid
            # not the error itself, whose traceback would keep files open
            end = partial(end, error=message_of(error), is_fatal=isinstance(error, _ChangedError))
        if batch:
            yield self._block(batch)
        yield end(records=self._count)

    def _remaining(self) -> Iterator[RawRecord]:
        done, shard = self._reader.shard.done, self._reader.shard.shard
        self._inputs = shard.reader.open()
        for raw in shard.reader.records(self._inputs):
            self._count += 1
            known = done[raw.index] if raw.index < len(done) else MISSING
            if known == MISSING:
                yield raw
            elif known != raw.checksum:
                raise _ChangedError(f"{location(raw.file, raw.line)} has changed since the run "
                                    "began; resume with the same input, or write to another "
                                    "output")
        if self._count < len(done):
            raise _ChangedError(f"{', '.join(f.name for f in shard.files)}: {self._count} records, "
                                f"but {len(done)} or more when the run began; resume with the same "
                                "input, or write to another output")

    def _block(self, batch: list[RawRecord]) -> Block:
        return Block(self._reader.shard.number, batch, sum(i.consumed for i in self._inputs),
                     {"read": perf_counter() - self._since})


def _size(raw: RawRecord) -> int:
    """Bytes of a raw record; 0 if its content is read by the worker."""
    if isinstance(raw.content, tuple):
        return sum(len(line) for part in raw.content if part for line in part.lines)
    return len(raw.content) if isinstance(raw.content, bytes) else 0
