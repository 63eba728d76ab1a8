"""The driver of the pipeline: it gives unfinished shards to a runner and results to the sink.

The sink knows which shards, and which records of them, are not finished yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from time import perf_counter

from minrisk._core.errors import InputError, Wording, warn
from minrisk.io.outputs import MISSING, Sink, UnfinishedShard, count_records
from minrisk.io.records import Result
from minrisk.pipeline.batches import OnError
from minrisk.pipeline.reading import BlockReader
from minrisk.pipeline.runner import Inline, Runner, RunningWorkers
from minrisk.pipeline.workers import Block, End, FatalItem, Item, Seconds, WorkerPool

MAX_FAILURES_BEFORE_SUCCESS = 16  # then the reason is taken to concern every segment


@dataclass(frozen=True)
class Policy:
    """Limits of memory, and the treatment of failures."""

    records: int  # maximum per block
    memory: int = 1 << 30  # maximum bytes of all blocks in flight
    on_error: OnError = "skip"
    max_errors: int | None = None


@dataclass
class Run:
    """One run of the pipeline, with its times, warnings and broken shards."""

    sink: Sink
    pools: Sequence[WorkerPool]
    runner: Runner
    policy: Policy
    broken: dict[int, str] = field(default_factory=dict)  # shards that cannot be read to their end
    seconds: Seconds = field(default_factory=dict)  # by stage, of all workers together
    read: dict[int, int] = field(default_factory=dict)  # bytes, by shard
    _error: InputError | None = None  # ends the run once the results in flight are written
    _has_success: bool = False
    # failures before the first success, by shard and index
    _held: dict[tuple[int, int], Result] = field(default_factory=dict)
    _totals: dict[int, int] = field(default_factory=dict)  # records, of shards that were read
    _warnings: set[str] = field(default_factory=set)  # of workers, shown already

    def expected(self) -> int | None:
        """The number of results of this run, where its inputs can be counted quickly."""
        remaining = list(self.sink.remaining())
        counts = count_records([unfinished.shard for unfinished in remaining])
        if counts is None:
            return None
        return sum(counts) - sum(len(found.done) - found.done.count(MISSING)
                                 for found in remaining)

    def results(self) -> Generator[Result]:
        """Every result as it is written. The sink must be open."""
        remaining = len(list(self.sink.remaining()))
        if not remaining:
            return
        self._has_success = bool(self.sink.counts["segments"])
        with self.runner.start(self.pools) as running:
            self.pools = running.pools
            self.sink.begin()
            yield from self._run_all_passes(running)
        if self._error:
            raise self._error
        if self._held:
            raise InputError(self._held_reason("all {} segments failed"))
        if len(self.broken) == remaining and not self._has_success:
            raise InputError(next(iter(self.broken.values())))

    def _run_all_passes(self, running: RunningWorkers) -> Iterator[Result]:
        """Run all records, then those that were lost with their workers one by one, then fail them.

        A failure is a result, and no reason to try again: an endpoint may charge for it.
        """
        for records in (self.policy.records, 1):
            readers = self._block_readers(records)
            if readers and not self._error:
                with closing(running.run(readers, self._is_over, self._is_full)) as items:  # type: ignore[type-var]
                    yield from self._take(items)
        if not self._error:
            for reader in self._block_readers(1):
                yield from self._take(map(self._refuse, reader.blocks()))

    def _block_readers(self, records: int) -> list[BlockReader]:
        # a worker has one block in work and one waiting
        size = self.policy.memory // (2 * sum(pool.workers or 1 for pool in self.pools) + 2)
        if isinstance(self.runner, Inline):
            records = 1  # the stages batch them
        shards = map(self._with_held, self.sink.remaining())
        return [BlockReader(shard, records, size) for shard in shards
                if shard.number not in self.broken and not self._is_done(shard)]

    def _with_held(self, shard: UnfinishedShard) -> UnfinishedShard:
        """The shard with failures that are held back among the records that are done."""
        held = [failure for failure in self._held.values() if failure.shard == shard.number]
        if not held:
            return shard
        done = array("q", shard.done)
        for failure in held:
            done.extend([MISSING] * (failure.index + 1 - len(done)))
            done[failure.index] = failure.checksum
        return shard._replace(done=done)

    def _is_done(self, shard: UnfinishedShard) -> bool:
        """Whether each record of a shard has a result; a pipe cannot be read again to find out."""
        return len(shard.done) == self._totals.get(shard.number) and MISSING not in shard.done

    def _is_over(self) -> bool:
        return self._error is not None

    def _is_full(self) -> bool:
        return self.sink.is_full(self.policy.memory)

    def _take(self, items: Iterator[Item]) -> Iterator[Result]:
        for item in items:
            if isinstance(item, FatalItem):
                raise item.error
            if isinstance(item, End):
                self._end(item)
            else:
                yield from self._write_block(item)

    def _refuse(self, item: Block | End) -> Item:
        for pool in self.pools:
            if isinstance(item, Block):
                late = ", or exceeded the segment timeout" if pool.segment_timeout else ""
                item = pool.refuse(item, f"every worker that tried it died{late}")
        return item

    def _write_block(self, block: Block) -> Iterator[Result]:
        for name, spent in block.seconds.items():
            self._spend(name, spent)
        fresh: list[Result] = []
        if results := self._accepted(block.items):
            start = perf_counter()
            for shard, of_shard in groupby(results, attrgetter("shard")):
                fresh += self.sink.add(shard, list(of_shard))
            self._spend("write", perf_counter() - start)
            self.read[block.shard] = max(block.read, self.read.get(block.shard, 0))
        self._warn(block.warnings)
        yield from fresh

    def _warn(self, messages: Sequence[str]) -> None:
        """Show warnings of workers, each once whichever worker it came from."""
        for message in messages:
            if message not in self._warnings:
                self._warnings.add(message)
                warn(message)

    def _accepted(self, results: Sequence[Result]) -> list[Result]:
        """The results to write; other failures are tried again when the run is resumed."""
        accepted = []
        for result in results:
            if result.failure is None:
                self._has_success = True
            elif self.policy.on_error == "stop":
                self._stop(result.message)
                continue
            accepted.append(result)
        if not self._has_success:
            self._hold(accepted)
            return []
        accepted, self._held = [*self._held.values(), *accepted], {}
        return self._within_limit(accepted)

    def _hold(self, failures: list[Result]) -> None:
        """Hold back failures before the first success: their reason may concern all segments."""
        self._held |= {(failure.shard, failure.index): failure for failure in failures}
        if len(self._held) >= MAX_FAILURES_BEFORE_SUCCESS:
            self._stop(self._held_reason("the first {} segments all failed"))

    def _held_reason(self, extent: str) -> str:
        """The first reason, and how many segments failed if there are several."""
        first, *others = self._held.values()
        return f"{first.message}; {extent.format(len(self._held))}" if others else first.message

    def _within_limit(self, results: list[Result]) -> list[Result]:
        limit = self.policy.max_errors
        if limit is None:
            return results
        failures = [r for r in results if r.failure is not None]
        if not failures:
            return results
        failed = self.sink.counts["failed"] + len(failures)
        if failed > limit:
            self._stop(Wording("{failed} segments failed, more than max_errors={limit}; the last: "
                               "{last}", failed=failed, limit=limit, last=failures[-1].message))
            return [r for r in results if r.failure is None]
        return results

    def _stop(self, reason: str) -> None:
        self._error = self._error or InputError(reason)

    def _spend(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def _end(self, end: End) -> None:
        if end.error is None:
            self._totals[end.shard] = end.records
            start = perf_counter()
            self.sink.end(end.shard, end.records)
            self._spend("write", perf_counter() - start)
        elif self.policy.on_error == "stop" or end.is_fatal or not self.sink.records_broken_shards:
            self._stop(end.error)
        else:
            self.broken[end.shard] = end.error
            self.sink.fail(end.shard, end.error)
