"""Batches of records, and retries of a batch that fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from minrisk._core.errors import MinriskError, MissingExtra, UnusableError
from minrisk.io.records import Record

BATCH = 16  # segments, unless the metric or the sampler prefers another number
# segments that take milliseconds each: sending a block costs more than decoding a segment
LIGHT_BLOCK = 64
OnError = Literal["stop", "skip"]
T = TypeVar("T")
BatchWork = Callable[[Sequence[Record]], Sequence[Record]]


def batched(records: Iterable[Record], size: int) -> Iterator[Record | list[Record]]:
    """Records in lists of this size; records that are finished are not put into a list.

    If the input ends with an error, the records before it are a batch, and then it is raised.
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
    """Whether there is nothing to do: it failed, or has the samples of a blank source."""
    return record.error is not None or (record.samples is not None and record.segment is None)


def in_batches(records: Iterable[Record], size: int, work: BatchWork,
               on_error: OnError) -> Iterator[Record]:
    """Each record with the result of the work, or with its error."""
    for batch in batched(records, size):
        if isinstance(batch, Record):
            yield batch
        else:
            yield from _attempt(work, batch, on_error)


def in_threads(records: Iterable[Record], size: int, work: BatchWork, on_error: OnError,
               threads: int, prepare_thread: Callable[[], None]) -> Iterator[Record]:
    """The same with several batches in work at once, in threads; one more is read ahead."""
    with ThreadPoolExecutor(threads, "minrisk-batch", prepare_thread) as pool:
        def submit(batch: list[Record]) -> Future[list[Record]]:
            return pool.submit(lambda: list(_attempt(work, batch, on_error)))

        for result in _ahead(_results(records, size, submit), threads + 1):
            yield from result.result()


def _results(records: Iterable[Record], size: int,
             submit: Callable[[list[Record]], Future[list[Record]]]) -> Iterator[Future[Any]]:
    """The results of all batches; an error of the input comes after those before it."""
    try:
        for batch in batched(records, size):
            if isinstance(batch, Record):
                yield _finished_future([batch], None)
            else:
                yield submit(batch)
    except MinriskError as error:
        yield _finished_future([], error)


def _finished_future(records: list[Record], error: MinriskError | None) -> Future[list[Record]]:
    future: Future[list[Record]] = Future()
    if error is None:
        future.set_result(records)
    else:
        future.set_exception(error)
    return future


def _ahead(items: Iterator[T], count: int) -> Iterator[T]:
    """The items, of which `count` are begun before the first of them is yielded."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) == count:
            yield waiting.popleft()
    yield from waiting


def _attempt(work: BatchWork, batch: Sequence[Record], on_error: OnError) -> Iterator[Record]:
    """Do the work on a batch; if it fails, on its halves, down to single records.

    So a bad record does not fail the others, and a batch that is too large for memory succeeds in
    smaller ones. If the first failure ends the run (`on_error="stop"`), records are tried one by
    one instead.
    """
    made: Sequence[Record] = ()
    parts: Sequence[Sequence[Record]] = ()
    try:  # no yield inside: an exception of the consumer is no failure of the work
        made = work(batch)
    except BaseException as error:
        if is_fatal(error):
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


def is_fatal(error: BaseException) -> bool:
    """Whether every other record would fail too, so that the run ends.

    Any other exception of a model, metric or program, `SystemExit` and a panic of a native library
    included, is a failure of its record.
    """
    return isinstance(error, UnusableError | MissingExtra | KeyboardInterrupt)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; by the name of the class, because torch must not be imported."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
