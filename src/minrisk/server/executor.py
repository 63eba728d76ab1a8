"""Ranking: at once if it is quick, else in threads; with a model, in one thread for all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from math import inf
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MODEL_BATCH, Strategy, all_metrics, loads_model, take_usage
from minrisk.server.batching import BatchThread

T = TypeVar("T")
_MAX_BLOCKING = 0.002  # seconds for which a ranking may hold up all other requests


class TimedStrategy:
    """A strategy, and the processor time that it takes."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.loads_model = loads_model(strategy)
        self._seconds_per_unit = inf  # of the last segment

    def is_quick(self, segment: Segment) -> bool:
        """Whether ranking is expected to take so little time that no other request suffers."""
        return (not self.loads_model
                and self._seconds_per_unit * _size(segment) < _MAX_BLOCKING)

    def rank(self, segment: Segment) -> RankedSegment:
        begin = time.thread_time()
        [found] = _ranked(self.strategy, [segment])
        self._seconds_per_unit = (time.thread_time() - begin) / _size(segment)
        return found


def _size(segment: Segment) -> int:
    """Characters times hypotheses, to which the time of a light metric is about proportional."""
    return (1 + sum(map(len, segment.hypotheses))) * len(segment.hypotheses)


class RankedSegment(NamedTuple):
    """A ranking, what else the output says of it, and the usage of judges."""

    ranking: Ranking
    details: Mapping[str, Any]  # of a vote, the answer and the votes
    judge_usage: Mapping[str, int]  # requests and tokens


def _ranked(strategy: Strategy, segments: Sequence[Segment]) -> list[RankedSegment]:
    return [RankedSegment(ranking, strategy.metric.details(segment, ranking), {})
            for segment, ranking in zip(segments, strategy.rank(segments), strict=True)]


class _RankingJob(NamedTuple):
    strategy: Strategy
    segment: Segment


class RankingExecutor:
    """Ranks segments for any number of requests at a time.

    Strategies without a model run in threads, side by side in the native core, unless they are
    quick. Those with a model share a single thread, which ranks the waiting segments of a strategy
    together. `count_usage` gets the usage of judges, also that of rankings which fail or which
    nobody waits for any more.
    """

    def __init__(self, threads: int,
                 count_usage: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="minrisk-choose")
        self._model = Lock()  # models are for one thread at a time
        self._count_usage = count_usage
        self._model_thread: BatchThread[_RankingJob, RankedSegment] = BatchThread(
            "minrisk-model", self._rank_together, kind=lambda job: job.strategy,
            max_batch=lambda _: MODEL_BATCH)

    async def rank(self, timed_strategy: TimedStrategy, segment: Segment) -> RankedSegment:
        """The ranking of a segment; cancelled requests are skipped."""
        if timed_strategy.loads_model:
            job = _RankingJob(timed_strategy.strategy, segment)
            return await asyncio.wrap_future(self._model_thread.submit(job))
        if timed_strategy.is_quick(segment):
            return timed_strategy.rank(segment)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, timed_strategy.rank, segment)

    async def run(self, strategy: Strategy, work: Callable[[], T]) -> T:
        """The result of other work with a strategy, in a thread; with a model, between batches."""
        def alone() -> T:
            with self._model if loads_model(strategy) else nullcontext():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, alone)

    def _rank_together(self, jobs: Sequence[_RankingJob]) -> list[RankedSegment]:
        with self._model:
            try:
                ranked = _ranked(jobs[0].strategy, [job.segment for job in jobs])
            except BaseException:
                if len(jobs) == 1:  # others are ranked again one by one
                    self._take_usage(jobs[0])
                raise
            return [found._replace(judge_usage=self._take_usage(job))
                    for found, job in zip(ranked, jobs, strict=True)]

    def _take_usage(self, job: _RankingJob) -> Counter[str]:
        usage = take_usage(all_metrics(job.strategy), job.segment)
        self._count_usage(usage)
        return usage

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model_thread.close()
