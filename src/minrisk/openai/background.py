"""Asynchronous work for synchronous callers: an event loop in a background thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from minrisk._core.errors import MinriskError, UnusableError

T = TypeVar("T")
R = TypeVar("R")
AsyncWork = Callable[[T], Coroutine[Any, Any, R]]
Callback = Callable[[], object]
Connect = Callable[[Callable[[Callback], None]], AbstractAsyncContextManager[AsyncWork[T, R]]]
Done = tuple[T, Future[R]] | Callback  # finished work, or a callback to run in the caller's thread

_WAIT = 0.2  # seconds between two calls of `waiting`


def stream(connect: Connect[T, R], items: Iterable[T], ahead: int,
           waiting: Callback = lambda: None) -> Generator[tuple[T, R | MinriskError]]:
    """Each item with its result, in order of completion.

    At most `ahead` items are in progress; the next one is read, in the caller's thread, when a
    result has been consumed. An error of the iterable is raised after the results of the items
    before it; an `UnusableError` of the work is raised after the results that have finished by
    then. `waiting` is called periodically while there is no result. Closing the generator, an
    interrupt (Ctrl-C) or an error of `waiting` cancels unfinished work. `connect` gets a function
    that runs callbacks in the caller's thread.
    """
    done: SimpleQueue[Done[T, R]] = SimpleQueue()
    with _running_loop() as loop:
        connection = AsyncExitStack()
        try:
            work = _run(loop, connection.enter_async_context(connect(done.put))).result()

            def submit(item: T) -> None:
                future = _run(loop, work(item))
                future.add_done_callback(lambda found: done.put((item, found)))

            yield from _results(submit, done, iter(items), ahead, waiting)
        finally:
            _run(loop, _close(connection)).result()


def _results(submit: Callable[[T], None], done: SimpleQueue[Done[T, R]], items: Iterator[T],
             ahead: int, waiting: Callback) -> Iterator[tuple[T, R | MinriskError]]:
    running, has_more = 0, True
    failure: MinriskError | None = None  # raised by the iterable; earlier items are valid
    while running or has_more:
        # yield results first, because reading the next item may block
        while has_more and running < ahead and done.empty():
            try:
                submit(next(items))
                running += 1
            except StopIteration:
                has_more = False
            except MinriskError as error:
                has_more, failure = False, error
        if not running:
            break
        try:
            found = done.get(timeout=_WAIT)
        except Empty:
            found = waiting
        if not isinstance(found, tuple):
            found()
            continue
        running -= 1
        item, future = found
        result = _result(future)
        if isinstance(result, UnusableError):
            yield from _finished(done)
            raise result
        yield item, result
    if failure:
        raise failure


def _result(future: Future[R]) -> R | MinriskError:
    """The result of finished work, or its error; other exceptions are bugs and are raised."""
    try:
        return future.result()
    except MinriskError as error:
        return error


def _finished(done: SimpleQueue[Done[T, R]]) -> Iterator[tuple[T, R]]:
    """The successful results that are available without waiting."""
    while not done.empty():
        finished = done.get()
        if isinstance(finished, tuple) and not finished[1].exception():
            yield finished[0], finished[1].result()


@contextmanager
def _running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a background thread."""
    loop = asyncio.new_event_loop()
    # a daemon thread, so that the interpreter can exit without waiting for a server
    thread = Thread(target=loop.run_forever, name="minrisk-requests", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()  # without waiting for an unfinished DNS lookup


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, R]) -> Future[R]:
    return asyncio.run_coroutine_threadsafe(work, loop)


async def _close(connection: AsyncExitStack) -> None:
    """Cancel all work, then close the connection."""
    await cancel_all(*asyncio.all_tasks() - {asyncio.current_task()})
    await connection.aclose()


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended; their results are discarded."""
    for task in tasks:
        task.cancel()
    if not all(task.done() for task in tasks):
        await asyncio.wait(tasks)
    for task in tasks:  # without this, asyncio would log the errors
        if not task.cancelled():
            task.exception()
