"""Where the server computes: in worker processes, and with a model in one thread for all requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, TypeVar

from minrisk._core.process import progress_listener
from minrisk._core.segment import Segment
from minrisk._core.strategy import MODEL_BATCH, Strategy, all_metrics, loads_model, take_usage
from minrisk.openai.responses import Choice
from minrisk.server import choosing
from minrisk.server.batching import BatchThread
from minrisk.server.choosing import Chosen, ComparisonOptions, RankedSegment
from minrisk.server.workers import Workers

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _RankingJob:
    strategy: Strategy
    segment: Segment
    is_abandoned: Event = field(default_factory=Event)


class _AbandonedError(Exception):
    """Nobody waits for any ranking of a batch."""


class RankingExecutor:
    """Ranks segments, and does other work whose time depends on content, beside the event loop.

    Whatever needs no model runs in worker processes, and ends with the request that needs it.
    Metrics with a model share a single thread of this process, which ranks the waiting segments of
    a strategy together; a batch that nobody waits for any more ends when a metric next reports its
    progress. `count_usage` gets the usage of judges, also that of rankings which fail or which
    nobody waits for.
    """

    def __init__(self, workers: int,
                 count_usage: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        self._workers = Workers(workers)
        self._model = Lock()  # models are for one thread at a time
        self._count_usage = count_usage
        self._model_thread: BatchThread[_RankingJob, RankedSegment] = BatchThread(
            "minrisk-model", self._rank_together, kind=lambda job: job.strategy,
            max_batch=lambda _: MODEL_BATCH)

    async def open(self) -> None:
        await self._workers.open()

    async def close(self) -> None:
        """End all work, also what is not finished."""
        self._model_thread.close()
        await self._workers.close()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function of a module, in a worker process."""
        return await self._workers.run(function, *args)

    async def choose(self, choices: Sequence[Choice], strategy: Strategy,
                     comparison: ComparisonOptions) -> tuple[Chosen, RankedSegment] | None:
        """The candidates among these choices, and their ranking; None if there are none."""
        light = None if loads_model(strategy) else strategy
        found = await self.run(choosing.choose, choosing.comparable(choices), light, comparison,
                               strategy.metric.is_vote)
        if found is None:
            return None
        ranked = (await self._rank_with_model(comparison.measured(strategy), found.segment)
                  if found.ranked is None else found.ranked)
        return found.of(choices), ranked

    async def rank(self, strategy: Strategy, segment: Segment) -> RankedSegment:
        """The ranking of a segment."""
        if loads_model(strategy):
            return await self._rank_with_model(strategy, segment)
        [found] = await self.run(choosing.ranked, strategy, [segment])
        return found

    async def run_with(self, strategy: Strategy, function: Callable[[Strategy], T]) -> T:
        """The result of other work with a strategy; with a model, in a thread between two batches.
        """
        def alone() -> T:
            with self._model:
                return function(strategy)

        if loads_model(strategy):
            return await asyncio.to_thread(alone)
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

        with self._model:
            try:
                check()
                with progress_listener(check):
                    ranked = choosing.ranked(jobs[0].strategy, [job.segment for job in jobs])
            except BaseException as error:
                if len(jobs) == 1 or isinstance(error, _AbandonedError):
                    for job in jobs:  # others are ranked again one by one
                        self._take_usage(job)
                raise
            return [found._replace(judge_usage=self._take_usage(job))
                    for found, job in zip(ranked, jobs, strict=True)]

    def _take_usage(self, job: _RankingJob) -> Counter[str]:
        usage = take_usage(all_metrics(job.strategy), job.segment)
        self._count_usage(usage)
        return usage
