"""Many slow calls at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from minrisk.errors import MinriskError

T = TypeVar("T")
Task = Callable[[], T]


def in_threads(tasks: Sequence[Task[T]], workers: int) -> Iterator[tuple[int, T | MinriskError]]:
    """Each task's place and result, as they finish; those not begun are dropped at the end.

    The threads are daemons, so that whoever interrupts does not wait for a slow server.
    """
    waiting: SimpleQueue[tuple[int, Task[T]]] = SimpleQueue()
    done: SimpleQueue[tuple[int, T | Exception]] = SimpleQueue()
    for numbered in enumerate(tasks):
        waiting.put(numbered)
    for _ in range(min(workers, len(tasks))):
        Thread(target=_work, args=(waiting, done), daemon=True).start()
    try:
        for _ in tasks:
            place, result = done.get()
            if isinstance(result, Exception) and not isinstance(result, MinriskError):
                raise result
            yield place, result
    finally:
        _empty(waiting)


def _work(waiting: SimpleQueue[tuple[int, Task[T]]],
          done: SimpleQueue[tuple[int, T | Exception]]) -> None:
    with suppress(Empty):
        while True:
            place, task = waiting.get_nowait()
            done.put((place, _result(task)))


def _result(task: Task[T]) -> T | Exception:
    try:
        return task()
    except Exception as error:  # for the thread that waits for it
        return error


def _empty(queue: SimpleQueue[tuple[int, Task[T]]]) -> None:
    with suppress(Empty):
        while True:
            queue.get_nowait()
