"""Choosing beside the event loop: in threads, or in one worker that a model's requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MODEL_BATCH, Strategy, is_light


class _RankingJob(NamedTuple):
    strategy: Strategy
    segment: Segment
    result: Future[Ranking]


class Chooser:
    """Ranks segments for any number of requests at a time.

    Strategies without a model run in threads, where the native core leaves the others alone. Those
    with one share a single thread, which ranks together what came in the meantime.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="minrisk-choose")
        self._jobs: SimpleQueue[_RankingJob | None] = SimpleQueue()
        self._worker: Thread | None = None

    async def rank(self, strategy: Strategy, segment: Segment) -> Ranking:
        """The ranking of a segment; who no longer waits for it is passed over."""
        if is_light(strategy):
            [ranking] = await self.run(strategy.rank, [segment])
            return ranking
        result: Future[Ranking] = Future()
        self._start_worker()
        self._jobs.put(_RankingJob(strategy, segment, result))
        return await asyncio.wrap_future(result)

    async def run(self, work: Callable[[list[Segment]], list[Ranking]],
                  segments: list[Segment]) -> list[Ranking]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, segments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._jobs.put(None)

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = Thread(target=self._work, name="minrisk-model", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            jobs = [one for one in (job, *self._more())
                    if one.result.set_running_or_notify_cancel()]
            for strategy in dict.fromkeys(one.strategy for one in jobs):
                _rank([one for one in jobs if one.strategy == strategy])

    def _more(self) -> Sequence[_RankingJob]:
        """What else is there already."""
        found: list[_RankingJob] = []
        while len(found) < MODEL_BATCH - 1:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)  # which ends the worker after this batch
                break
            found.append(job)
        return found


def _rank(jobs: Sequence[_RankingJob]) -> None:
    """Together, or one by one where that fails: one segment may be the fault of all."""
    try:
        rankings = jobs[0].strategy.rank([job.segment for job in jobs])
    except BaseException as error:  # it belongs to those who wait
        if len(jobs) == 1:
            jobs[0].result.set_exception(error)
            return
        for job in jobs:
            _rank([job])
    else:
        for job, ranking in zip(jobs, rankings, strict=True):
            job.result.set_result(ranking)
