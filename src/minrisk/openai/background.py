"""Asynchronous work for synchronous callers: an event loop in a background thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from minrisk._core.errors import MinriskError, UnusableError

T = TypeVar("T")
R = TypeVar("R")
AsyncWork = Callable[[T], Coroutine[Any, Any, R]]
Callback = Callable[[], object]
Connect = Callable[[Callable[[Callback], None]], AbstractAsyncContextManager[AsyncWork[T, R]]]

_WAIT = 0.2  # seconds without a result between two calls of `waiting`


def stream(connect: Connect[T, R], items: Iterable[T], ahead: int,
           waiting: Callback = lambda: None) -> Generator[tuple[T, R | MinriskError]]:
    """Each item with its result, in the order in which they finish.

    At most `ahead` items are in work; the next one is read, in the thread of the caller, when a
    result was consumed. An error of the iterable is raised after the results of the items before
    it, an `UnusableError` of the work after the results that are finished by then. Closing the
    generator or an interrupt (Ctrl-C) cancels unfinished work, and so does an error of `waiting`,
    which is called while there is no result. `connect` gets a function that runs calls in the
    caller's thread.
    """
    loop = _Loop(connect)
    try:
        loop.wait_until_connected()
        yield from _results(loop, _Source(iter(items)), ahead, waiting)
    finally:
        loop.close()


def _results(loop: _Loop[T, R], source: _Source[T], ahead: int,
             waiting: Callback) -> Iterator[tuple[T, R | MinriskError]]:
    running = 0
    while True:
        # results first: the next item may not be available yet
        while running < ahead and loop.done.empty() and source.advance():
            loop.submit(source.item)
            running += 1
        if not running:
            return source.finish()
        found = loop.take(waiting)
        if found is None:
            continue
        item, result = found
        running -= 1
        if isinstance(result, UnusableError):
            yield from loop.finished()
            raise result
        yield item, result


class _Source(Generic[T]):
    """The items of an iterable, and the error that ends it, if there is one."""

    item: T

    def __init__(self, items: Iterator[T]) -> None:
        self._items: Iterator[T] | None = items
        self._error: MinriskError | None = None

    def advance(self) -> bool:
        if self._items is None:
            return False
        try:
            self.item = next(self._items)
            return True
        except StopIteration:
            self._items = None
        except MinriskError as error:  # the items before the error are valid
            self._items, self._error = None, error
        return False

    def finish(self) -> None:
        if self._error:
            raise self._error


class _Loop(Generic[T, R]):
    """An event loop in a thread; `done` has results, and calls for the caller's thread."""

    def __init__(self, connect: Connect[T, R]) -> None:
        self.done: SimpleQueue[tuple[T, R | BaseException] | Callback] = SimpleQueue()
        self._connect = connect
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._work: Future[AsyncWork[T, R]] = Future()
        self._tasks: set[asyncio.Task[None]] = set()
        # a daemon, so that the interpreter can exit without waiting for a server
        self._thread = Thread(target=self._run, name="minrisk-requests", daemon=True)
        self._thread.start()

    def wait_until_connected(self) -> None:
        self._work.result()

    def submit(self, item: T) -> None:
        self._loop.call_soon_threadsafe(self._start, item, self._work.result())

    def take(self, waiting: Callback) -> tuple[T, R | MinriskError] | None:
        """The next result, or None after a call; an error that is no MinriskError is raised."""
        try:
            found = self.done.get(timeout=_WAIT)
        except Empty:
            found = waiting
        if not isinstance(found, tuple):
            found()
            return None
        item, result = found
        if isinstance(result, BaseException) and not isinstance(result, MinriskError):
            raise result
        return item, result

    def finished(self) -> Iterator[tuple[T, R | MinriskError]]:
        """The successful results that are available without waiting."""
        with suppress(Empty):
            while True:
                found = self.done.get_nowait()
                if isinstance(found, tuple) and not isinstance(found[1], BaseException):
                    yield found[0], found[1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()  # without waiting for an unfinished DNS lookup

    async def _serve(self) -> None:
        try:
            async with self._connect(self.done.put) as work:
                self._work.set_result(work)
                await self._stop.wait()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        except BaseException as error:  # raised in the thread that waits for it
            if self._work.done():
                raise
            self._work.set_exception(error)
            await self._stop.wait()

    def _start(self, item: T, work: AsyncWork[T, R]) -> None:
        task = self._loop.create_task(self._finish(item, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, item: T, work: AsyncWork[T, R]) -> None:
        try:
            self.done.put((item, await work(item)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.done.put((item, error))

