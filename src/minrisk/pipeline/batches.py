"""Batches, and what to do with one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from minrisk._core.errors import MinriskError, MissingExtra, UnusableError
from minrisk.io.record import Record

BATCH = 16  # segments, where neither the metric nor the sampler prefers another number
LIGHT_BLOCK = 64  # segments that take milliseconds each: to carry a block around costs more
OnError = Literal["stop", "skip"]
Work = Callable[[Sequence[Record]], Sequence[Record]]


def batched(records: Iterable[Record], size: int) -> Iterator[Record | list[Record]]:
    """Records in lists of this size; those that are finished pass by themselves.

    If the input breaks off with an error, what came before it is a batch, and then it is raised.
    """
    batch: list[Record] = []
    broken: MinriskError | None = None
    try:
        for record in records:
            if is_finished(record):
                yield record
                continue
            batch.append(record)
            if len(batch) == size:
                yield batch
                batch = []
    except MinriskError as error:
        broken = error
    if batch:
        yield batch
    if broken:
        raise broken


def is_finished(record: Record) -> bool:
    """Whether it does not wait for a batch: it failed, or has the samples of a blank source."""
    return record.error is not None or (record.samples is not None and record.segment is None)


def in_batches(records: Iterable[Record], size: int, work: Work,
               on_error: OnError) -> Iterator[Record]:
    """Each record with what the work made of it, or with its error."""
    for batch in batched(records, size):
        if isinstance(batch, Record):
            yield batch
        else:
            yield from _attempt(work, batch, on_error)


def _attempt(work: Work, batch: Sequence[Record], on_error: OnError) -> Iterator[Record]:
    """A batch that fails is halved until only what fails alone is left.

    So one bad record costs no other, and what is too large together gets through in smaller
    batches. Where the first failure ends the run, it is looked for record by record: what cannot
    work is not tried again and again.
    """
    made: Sequence[Record] = ()
    parts: Sequence[Sequence[Record]] = ()
    try:  # nothing is given from inside: what a consumer raises is no failure of the work
        made = work(batch)
    except BaseException as error:
        if concerns_all(error):
            raise
        if len(batch) == 1:
            made = [batch[0].failed(error)]
        else:
            half = len(batch) // 2
            parts = ([batch[:half], batch[half:]] if on_error == "skip" or is_out_of_memory(error)
                     else [[record] for record in batch])
    yield from made
    for part in parts:
        for record in _attempt(work, part, on_error):
            yield record
            if on_error == "stop" and record.error is not None:
                return


def concerns_all(error: BaseException) -> bool:
    """Whether no other record could fare better: the run ends.

    A model, metric or program of somebody else may raise anything, `SystemExit` too, or what a
    native library makes of a panic; that is a failure of the record and no more.
    """
    return isinstance(error, UnusableError | MissingExtra | KeyboardInterrupt)


def is_out_of_memory(error: BaseException) -> bool:
    """By its name, for this must not import torch."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
