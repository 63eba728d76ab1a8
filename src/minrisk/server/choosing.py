"""Ranking outside of the event loop: in threads, or in one thread for strategies with a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MODEL_BATCH, Strategy, is_light
from minrisk.server.batching import BatchThread


class _RankingJob(NamedTuple):
    strategy: Strategy
    segment: Segment


class Chooser:
    """Ranks segments for any number of requests at a time.

    Strategies without a model run in threads, side by side in the native core. Those with a model
    share a single thread, which ranks the waiting segments of a strategy together.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="minrisk-choose")
        self._model_thread: BatchThread[_RankingJob, Ranking] = BatchThread(
            "minrisk-model", _rank, kind=lambda job: job.strategy, max_batch=lambda _: MODEL_BATCH)

    async def rank(self, strategy: Strategy, segment: Segment) -> Ranking:
        """The ranking of a segment; cancelled requests are skipped."""
        if is_light(strategy):
            [ranking] = await self.run(strategy.rank, [segment])
            return ranking
        return await asyncio.wrap_future(self._model_thread.submit(_RankingJob(strategy, segment)))

    async def run(self, work: Callable[[list[Segment]], list[Ranking]],
                  segments: list[Segment]) -> list[Ranking]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, segments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model_thread.close()


def _rank(jobs: Sequence[_RankingJob]) -> list[Ranking]:
    return jobs[0].strategy.rank([job.segment for job in jobs])
