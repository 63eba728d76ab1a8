"""The engine of worker processes on one machine; each loads its own models."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from glob import glob
from itertools import chain, takewhile
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import perf_counter

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.process import (
    ignore_interrupts,
    interrupts_held,
    own_process,
    progress_listener,
    report_progress,
    threads,
)
from minrisk.run.workers import (
    UNSENDABLE,
    Block,
    Engine,
    Item,
    ProgressUpdate,
    Work,
    WorkerPool,
    read_blocks,
    workers_that_fit,
)

_MAX_ATTEMPTS = 2  # attempts at a block whose worker process dies
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
# not "fork": a child would inherit locks that other threads hold, and nothing would release them
_SPAWN = get_context("spawn")
_READY = "ready"
_EXIT_SECONDS = 5.0  # seconds for a worker to exit by itself
_SECONDS_BETWEEN_REPORTS = 1.0
_SECONDS_BETWEEN_CHECKS = 1.0  # of workers with a time limit


class Processes(Engine):
    """An engine that reads in this process and runs the stages in worker processes."""

    name = "local"

    @contextmanager
    def start(self, pools: Sequence[WorkerPool]) -> Iterator[Sequence[WorkerPool]]:
        planned = plan_workers(pools)
        self._workers: list[list[Worker]] = []
        with ExitStack() as stack:
            for pool in planned:
                self._workers.append([Worker(pool, n) for n in range(pool.workers or 1)])
                for worker in self._workers[-1]:
                    stack.callback(worker.stop)
            for worker in chain.from_iterable(self._workers):
                worker.wait_until_ready()
            yield planned

    def results(self, work: Work) -> Iterator[Item]:
        items: Iterator[Item] = read_blocks(work)
        for workers in self._workers:
            items = _through(workers, items, work)
        yield from items


def plan_workers(pools: Sequence[WorkerPool]) -> list[WorkerPool]:
    """Pools with their numbers of workers and threads.

    By default, there is one worker per (share of a) GPU. Without GPUs, there is one per core, or
    one with all cores if a stage loads a model.
    """
    cores = threads()
    numbers = [_workers(pool, cores) for pool in pools]
    each = max(1, cores // sum(numbers))
    return [replace(pool, workers=number, threads=pool.threads or each)
            for pool, number in zip(pools, numbers, strict=True)]


def _workers(pool: WorkerPool, cores: int) -> int:
    if not pool.gpus:
        return pool.workers or (1 if pool.loads_model else max(1, cores // (pool.threads or 1)))
    fitting = workers_that_fit(_gpus(), pool.gpus)
    workers = pool.workers or fitting
    if not 0 < workers <= fitting:  # a worker without a GPU would use the CPU
        raise InputError(f"this machine has {_gpus()} NVIDIA GPUs, which are too few for "
                         f"{workers or 1} workers with {pool.gpus:g} each")
    return workers


def _gpus() -> int:
    given = os.environ.get(_VISIBLE_GPUS)
    if given is None:
        return len(glob("/dev/nvidia[0-9]*"))
    # as in CUDA, an invalid device hides all that follow
    return len(list(takewhile(lambda device: device.strip() not in ("", "-1"), given.split(","))))


def _through(workers: Sequence[Worker], items: Iterator[Item], work: Work) -> Iterator[Item]:
    """Yield results as blocks finish; a block is only read when a worker is free."""
    for item in items:
        if not isinstance(item, Block):
            yield item
            continue
        while True:
            busy = [worker for worker in workers if not worker.is_free]
            free = next((worker for worker in workers if worker.is_free), None)
            if free and not (busy and work.is_full()):
                break
            yield from _finished(busy)
        yield from free.begin(item)
    while busy := [worker for worker in workers if not worker.is_free]:
        yield from _finished(busy)


def _finished(workers: Sequence[Worker]) -> Iterator[Item]:
    """Wait for results of these workers; with a time limit, also check for overdue workers."""
    has_limit = any(worker.has_limit for worker in workers)
    start = perf_counter()
    ready = wait([worker.connection for worker in workers],
                 _SECONDS_BETWEEN_CHECKS if has_limit else None)
    # capped, because if this process was suspended, the workers were probably, too
    passed = min(perf_counter() - start, _SECONDS_BETWEEN_CHECKS)
    for worker in workers:
        if worker.connection in ready:
            yield from worker.finish()
        elif worker.has_limit:
            worker.waited(passed)


class Worker:
    """A worker process and the blocks assigned to it."""

    def __init__(self, pool: WorkerPool, number: int) -> None:
        self._pool = pool
        self._number = number
        self._blocks: deque[Block] = deque()
        self._failures = 0  # failed attempts at the first block
        self._seconds = 0.0  # for which the driver has waited for the first block
        self._start()

    @property
    def is_free(self) -> bool:
        return not self._blocks

    @property
    def has_limit(self) -> bool:
        return self._pool.segment_timeout is not None

    def waited(self, seconds: float) -> None:
        """Kill the process if it is overdue: its own alarm cannot end it if it is suspended."""
        self._seconds += seconds
        if self._is_late:
            self._process.kill()

    @property
    def _is_late(self) -> bool:
        limit = self._pool.segment_timeout
        return (limit is not None and not self.is_free
                and self._seconds > limit * len(self._blocks[0].items) + _EXIT_SECONDS)

    def wait_until_ready(self) -> None:
        """Wait until its models are loaded; raises the error if loading fails."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise MinriskError(f"a worker process {_exit_reason(self._process.exitcode)} before "
                               "it had any work; if it ran out of memory, use fewer workers; a "
                               "Python script starts workers under "
                               "if __name__ == '__main__'") from None
        if isinstance(answer, BaseException):
            raise answer

    def begin(self, block: Block) -> Iterator[Item]:
        self._blocks.append(block)
        yield from self._send()

    def finish(self) -> Iterator[Item]:
        """Handle a message: yields the result of the first block, if it is one."""
        try:
            result: Item | ProgressUpdate = self.connection.recv()
        except (EOFError, OSError):
            yield from self._died()
        else:
            if isinstance(result, ProgressUpdate):
                report_progress(result.what, result.done, result.total)
                return
            self._blocks.popleft()
            self._failures = 0
            yield result
        if self._blocks:
            yield from self._send()

    def stop(self) -> None:
        if self._blocks:
            self._process.kill()
        self.connection.close()
        self._end()

    def _end(self) -> int | None:
        """Join the process and return its exit code; kill it if it does not exit in time."""
        self._process.join(_EXIT_SECONDS)
        self._process.kill()
        self._process.join()
        return self._process.exitcode

    def _start(self) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(self._pool, self._number, theirs),
                                       daemon=True)
        try:
            with interrupts_held():
                self._process.start()
        except UNSENDABLE as error:
            raise InputError("the metric, strategy or sampler cannot be sent to worker processes "
                             f"({error}); define it in a module, or leave out the "
                             "workers") from None
        theirs.close()

    def _restart(self) -> None:
        self._process.join()
        self.connection.close()
        self._start()
        self.wait_until_ready()

    def _send(self) -> Iterator[Item]:
        """Send the first block; if it cannot be pickled, send its records one by one."""
        self._seconds = 0.0
        while self._blocks:
            try:
                self.connection.send(self._blocks[0])
                return
            except OSError:  # the process died while idle
                self._restart()
            except UNSENDABLE as error:
                yield from self._give_up(f"{type(error).__name__}: {error}")

    def _died(self) -> Iterator[Item]:
        """Restart the process and retry: first the block, then each of its records alone."""
        code, is_late = self._end(), self._is_late
        self._restart()
        self._failures += 1
        is_late = is_late or (sys.platform != "win32" and code == -signal.SIGALRM)
        if self._pool.segment_timeout is not None and is_late:
            yield from self._give_up("took longer than the segment timeout of "
                                     f"{self._pool.segment_timeout:g} s")
        elif self._failures >= _MAX_ATTEMPTS:
            yield from self._give_up(f"the worker process {_exit_reason(code)}, "
                                     f"{_MAX_ATTEMPTS} times")

    def _give_up(self, reason: str) -> Iterator[Item]:
        block = self._blocks.popleft()
        self._failures = 0
        if len(block.items) > 1:
            self._blocks.extendleft(reversed(list(block.singles())))
        else:
            yield self._pool.refuse(block, reason)


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"exited with code {code}"


@own_process()
def _serve(pool: WorkerPool, number: int, connection: Connection) -> None:
    """The main loop of a worker process, until its driver has ended."""
    ignore_interrupts()
    with suppress(OSError):  # standard error may be closed
        os.dup2(2, 1)  # what metrics print must not mix with results on standard output
    Thread(target=_end_with_driver, daemon=True).start()
    warnings.showwarning = _show_warning
    os.environ.setdefault("OMP_NUM_THREADS", str(pool.threads))
    if pool.gpus:
        os.environ[_VISIBLE_GPUS] = _devices(number, pool.gpus)
    try:
        pool.prepare()
    except MinriskError as error:
        connection.send(error)
        return
    connection.send(_READY)
    while True:
        try:
            block = connection.recv()
            with progress_listener(_Reporter(connection)):
                made = pool.run_pickled(block)
            connection.send_bytes(made)
        except (EOFError, ConnectionError):
            return


def _end_with_driver() -> None:
    """Exit when the driver has ended, even during a long call."""
    driver = parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"minrisk: warning: {message}", file=sys.stderr)


class _Reporter:
    """Sends the progress of a worker to the driver, at most once a second."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last = perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        if perf_counter() - self._last >= _SECONDS_BETWEEN_REPORTS:
            self._last = perf_counter()
            self._connection.send(ProgressUpdate(what, done, total))


def _devices(number: int, gpus: float) -> str:
    """The GPUs of this worker; several workers may share one."""
    given = os.environ.get(_VISIBLE_GPUS)
    first = int(number * gpus) if gpus >= 1 else number // workers_that_fit(1, gpus)
    ours = range(first, first + max(1, int(gpus)))
    return ",".join(given.split(",")[i] if given else str(i) for i in ours)
