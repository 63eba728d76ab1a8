"""A thread that runs jobs in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchThread(Generic[Item, Result]):
    """Runs jobs in one thread; jobs of the same kind that wait together are one batch.

    Args:
        name: of the thread, which starts with the first job.
        run: returns the results of a batch.
        kind: a hashable key; a batch has only items with equal keys.
        max_batch: the largest number of jobs to take together, for the first of them.
        window: seconds for which the first job waits for others.
    """

    def __init__(self, name: str, run: Callable[[list[Item]], Sequence[Result]],
                 kind: Callable[[Item], object], max_batch: Callable[[Item], int],
                 window: float = 0.0) -> None:
        self._name = name
        self._run = run
        self._kind = kind
        self._max_batch = max_batch
        self._window = window
        self._jobs: SimpleQueue[tuple[Item, Future[Result]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, item: Item) -> Future[Result]:
        """The future result of a job; jobs that are cancelled while they wait are skipped."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        result: Future[Result] = Future()
        self._jobs.put((item, result))
        return result

    def close(self) -> None:
        """End the thread after the jobs that are in the queue."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                more = self._queued_jobs(job[0])
            except Exception as error:  # of `max_batch`; the thread serves the other jobs
                job[1].set_exception(error)
                continue
            for jobs in self._by_kind([job, *more]):
                self._finish(jobs)

    def _by_kind(self, jobs: Sequence[tuple[Item, Future[Result]]]
                 ) -> list[list[tuple[Item, Future[Result]]]]:
        found: dict[object, list[tuple[Item, Future[Result]]]] = {}
        for item, result in jobs:
            if result.set_running_or_notify_cancel():
                try:
                    found.setdefault(self._kind(item), []).append((item, result))
                except Exception as error:  # a key that is not hashable costs its own job
                    result.set_exception(error)
        return list(found.values())

    def _queued_jobs(self, first: Item) -> list[tuple[Item, Future[Result]]]:
        """Further jobs that are in the queue, or come within the window, up to one batch."""
        found: list[tuple[Item, Future[Result]]] = []
        end = time.monotonic() + self._window
        room = self._max_batch(first) - 1
        while len(found) < room:
            try:
                job = self._jobs.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            if job is None:
                self._jobs.put(None)  # ends the thread after this batch
                break
            found.append(job)
        return found

    def _finish(self, jobs: Sequence[tuple[Item, Future[Result]]]) -> None:
        """Run jobs together, or one by one if that fails: a batch may fail because of one member.
        """
        try:
            results = self._run([item for item, _ in jobs])
        except BaseException as error:  # raised again where the result is awaited
            if len(jobs) == 1:
                jobs[0][1].set_exception(error)
                return
            for job in jobs:
                self._finish([job])
        else:
            for (_, future), result in zip(jobs, results, strict=True):
                future.set_result(result)
