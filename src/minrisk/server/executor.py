"""Where the server computes: model-free work in processes, metrics with a model in one thread."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from minrisk._core.process import progress_listener
from minrisk._core.segment import Segment
from minrisk._core.strategy import MODEL_BATCH, Strategy, all_metrics, loads_model, take_usage
from minrisk.openai.responses import Choice
from minrisk.server import choosing
from minrisk.server.choosing import (
    Candidate,
    Chosen,
    Comparison,
    Question,
    RankedSegment,
    RankingMethod,
    Votes,
)
from minrisk.server.workers import Workers

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class _RankingJob:
    strategy: Strategy
    segment: Segment
    is_abandoned: Event = field(default_factory=Event)


class _AbandonedError(Exception):
    """The requests of all jobs of a batch have been cancelled."""


class RankingExecutor:
    """Ranks segments, and runs other content-dependent work, outside the event loop.

    Work without a model runs in worker processes and is cancelled with its request. Metrics with a
    model share a single thread of this process, which ranks waiting segments of the same strategy
    in one batch; a batch whose requests were all cancelled stops when a metric next reports its
    progress. `count_usage` gets the usage of judges, also of rankings that fail or are cancelled.
    """

    def __init__(self, workers: int,
                 count_usage: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        self._workers = Workers(workers)
        self._model_lock = Lock()  # models are used by one thread at a time
        self._count_usage = count_usage
        self._model_thread: BatchThread[_RankingJob, RankedSegment] = BatchThread(
            "minrisk-model", self._rank_together, kind=lambda job: job.strategy,
            max_batch=lambda _: MODEL_BATCH)

    async def open(self) -> None:
        await self._workers.open()

    async def close(self) -> None:
        """Stop all work, including unfinished jobs."""
        self._model_thread.close()
        await self._workers.close()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a module-level function, called in a worker process."""
        return await self._workers.run(function, *args)

    async def choose(self, candidates: Sequence[Candidate], choices: Sequence[Choice],
                     method: RankingMethod, question: Question) -> Chosen | None:
        """Choose among choices, the first of which are read as candidates; None if none can win."""
        rest = choices[len(candidates):]
        if method.is_quick(choices, question.as_json):
            result = choosing.choose(candidates, rest, method, question)
        else:
            result = await self.run(choosing.choose, candidates, choosing.comparable(rest),
                                    method.without_model, question)
        if not isinstance(result, Comparison):
            return result
        ranking = await self._rank_with_model(method.measured, result.segment)
        return result.chosen(ranking, method, question)

    async def votes(self, choices: Sequence[Choice], method: RankingMethod, as_json: bool,
                    classes: dict[str, str]) -> Votes:
        """The votes of further choices; `classes` is from the choices before."""
        assert method.strategy is not None
        if method.is_quick(choices, as_json):
            return choosing.votes(method, choices, as_json, classes)
        call = asyncio.to_thread if method.strategy.metric.loads_model else self.run
        return await call(choosing.votes, method, choosing.comparable(choices), as_json, classes)

    async def rank(self, strategy: Strategy, segment: Segment) -> RankedSegment:
        """The ranking of a segment."""
        if loads_model(strategy):
            return await self._rank_with_model(strategy, segment)
        [found] = await self.run(choosing.ranked, strategy, [segment])
        return found

    async def run_with(self, strategy: Strategy, function: Callable[[Strategy], T]) -> T:
        """The result of a function of a strategy; with a model, it runs between two batches."""
        def locked() -> T:
            with self._model_lock:
                return function(strategy)

        if loads_model(strategy):
            return await asyncio.to_thread(locked)
        return await self.run(function, strategy)

    async def _rank_with_model(self, strategy: Strategy, segment: Segment) -> RankedSegment:
        job = _RankingJob(strategy, segment)
        try:
            return await asyncio.wrap_future(self._model_thread.submit(job))
        except asyncio.CancelledError:
            job.is_abandoned.set()
            raise

    def _rank_together(self, jobs: Sequence[_RankingJob]) -> list[RankedSegment]:
        def check(*_: object) -> None:
            if all(job.is_abandoned.is_set() for job in jobs):
                raise _AbandonedError

        with self._model_lock:
            try:
                check()
                with progress_listener(check):
                    ranked = choosing.ranked(jobs[0].strategy, [job.segment for job in jobs])
            except BaseException as error:
                if len(jobs) == 1 or isinstance(error, _AbandonedError):
                    for job in jobs:  # other failed batches are retried job by job
                        self._take_usage(job)
                raise
            return [found._replace(judge_usage=self._take_usage(job))
                    for found, job in zip(ranked, jobs, strict=True)]

    def _take_usage(self, job: _RankingJob) -> Counter[str]:
        usage = take_usage(all_metrics(job.strategy), job.segment)
        self._count_usage(usage)
        return usage


class _BatchThread(Thread):
    """A thread in which a model may compute."""


def exit_beside_models() -> None:
    """Exit the process at once if a model still computes in a thread.

    The interpreter must not be finalised beside it: native code of torch would crash.
    """
    if any(isinstance(thread, _BatchThread) for thread in threading.enumerate()):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError):
                stream.flush()
        os._exit(0)


class BatchThread(Generic[Item, Result]):
    """Runs jobs in one thread; waiting jobs of the same kind are batched.

    Args:
        name: the name of the thread, which starts with the first job.
        run: returns the results of a batch.
        kind: returns a hashable key; a batch only has items with equal keys.
        max_batch: returns the largest size of a batch that starts with this item.
        window: seconds that the first job of a batch waits for others.
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
        """A future with the result of a job; jobs cancelled while queued are skipped."""
        if self._thread is None:
            self._thread = _BatchThread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        result: Future[Result] = Future()
        self._jobs.put((item, result))
        return result

    def close(self) -> None:
        """Stop the thread after the queued jobs."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                more = self._queued_jobs(job[0])
            except Exception as error:  # from `max_batch`; the thread must survive it
                job[1].set_exception(error)
                continue
            for jobs in self._by_kind([job, *more]):
                self._finish(jobs)

    def _by_kind(self, jobs: Sequence[tuple[Item, Future[Result]]]
                 ) -> list[list[tuple[Item, Future[Result]]]]:
        groups: dict[object, list[tuple[Item, Future[Result]]]] = {}
        for item, result in jobs:
            if result.set_running_or_notify_cancel():
                try:
                    groups.setdefault(self._kind(item), []).append((item, result))
                except Exception as error:  # an unhashable key fails only its own job
                    result.set_exception(error)
        return list(groups.values())

    def _queued_jobs(self, first: Item) -> list[tuple[Item, Future[Result]]]:
        """Further jobs that are queued or arrive within the window, up to one batch."""
        jobs: list[tuple[Item, Future[Result]]] = []
        end = time.monotonic() + self._window
        room = self._max_batch(first) - 1
        while len(jobs) < room:
            try:
                job = self._jobs.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            if job is None:
                self._jobs.put(None)  # stops the thread after this batch
                break
            jobs.append(job)
        return jobs

    def _finish(self, jobs: Sequence[tuple[Item, Future[Result]]]) -> None:
        """Run jobs as a batch; if it fails, one by one, because one job may have caused it."""
        try:
            results = self._run([item for item, _ in jobs])
        except BaseException as error:  # re-raised where the result is awaited
            if len(jobs) == 1:
                jobs[0][1].set_exception(error)
                return
            for job in jobs:
                self._finish([job])
        else:
            for (_, future), result in zip(jobs, results, strict=True):
                future.set_result(result)
