"""Worker processes for content-dependent work, which ends when its request is cancelled."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from minrisk._core.errors import MinriskError
from minrisk._core.process import ignore_interrupts, interrupts_held

T = TypeVar("T")
_HEADER = struct.Struct("!Q")  # before a message: its length
_CHUNK = 1 << 20  # bytes per read
_LONG = 0.25  # seconds of CPU time after which a job is long: it yields to others
_VERY_LONG = 1.0  # seconds of wall time after which a job that waits, as for a program, is long
_ABANDON_GRACE = 0.25  # seconds for an abandoned job to finish
_EXIT = 0.5  # seconds for a worker to end the programs that it started
_LARGE = 1 << 18  # bytes from which a job goes to the pool for large jobs
_LONG_JOBS = 4  # limit of concurrent long jobs, as a multiple of the pool's size
_NICE = 19  # niceness of a worker with a long or large job
_METHODS = get_all_start_methods()
# not "fork": a child would inherit locks that other threads hold, and nothing would release them
_CONTEXT: Any = get_context("forkserver" if "forkserver" in _METHODS else "spawn")
if "forkserver" in _METHODS:  # import once what every worker needs
    _CONTEXT.set_forkserver_preload(["__main__", "minrisk.server.choosing"])


class WorkerDiedError(MinriskError):
    """A worker process has died, perhaps for lack of memory."""


@dataclass(eq=False)
class _Worker:
    """A process that runs one job at a time."""

    process: BaseProcess
    connection: socket.socket
    is_long: bool = False  # its job is long
    begin: float = 0.0  # when its job began, on the monotonic clock
    computed_before: float = 0.0  # seconds of CPU time before its job

    @classmethod
    def start(cls, nice: int) -> _Worker:
        ours, theirs = socket.socketpair()
        process = _CONTEXT.Process(target=_serve, args=(theirs, nice), daemon=True)
        try:
            with interrupts_held():
                process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(process, ours)

    def ask(self, content: bytes) -> asyncio.Future[bytearray]:
        """Send a job; the future gets the reply."""
        self.begin, (self.computed_before, _) = time.monotonic(), self._status()
        return asyncio.ensure_future(self._reply(content))

    async def _reply(self, content: bytes) -> bytearray:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self.connection, _HEADER.pack(len(content)) + content)
            [size] = _HEADER.unpack(await self._read(_HEADER.size))
            return await self._read(size)
        except OSError:
            raise WorkerDiedError("a worker process has ended during its work; it may have run "
                                  "out of memory") from None

    async def _read(self, size: int) -> bytearray:
        loop, content = asyncio.get_running_loop(), bytearray()
        while len(content) < size:
            piece = await loop.sock_recv(self.connection, min(_CHUNK, size - len(content)))
            if not piece:
                raise ConnectionResetError
            content += piece
        return content

    @property
    def takes_long(self) -> bool:
        """Whether its job is long; time spent runnable, waiting for a CPU, does not count."""
        computed, is_ready = self._status()
        return computed - self.computed_before > _LONG or (
            not is_ready and time.monotonic() - self.begin > _VERY_LONG)

    def _status(self) -> tuple[float, bool]:
        """The process's CPU time in seconds, and whether it is running or runnable.

        Without /proc, wall time and False.
        """
        if sys.platform == "win32":
            return time.monotonic(), False
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return time.monotonic(), False
        state, *_ = fields = status.rpartition(")")[2].split()
        user, system = map(int, fields[11:13])
        return (user + system) / os.sysconf("SC_CLK_TCK"), state == "R"

    def yield_processor(self) -> None:
        """Mark the job as long, and lower the priority of its process."""
        self.is_long = True
        if sys.platform != "win32":  # Windows has no niceness
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.process.pid or 0, _NICE)

    def end(self) -> None:
        """End the process; its job fails with WorkerDiedError."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.process.terminate()  # lets it end the programs that it has started
        self.process.join(_EXIT)
        self.process.kill()
        self.process.join()


class Workers:
    """Two pools of worker processes, so that large jobs do not delay small ones."""

    def __init__(self, size: int) -> None:
        self._small, self._large = _Pool(size), _Pool(max(1, size // 2), _NICE)

    async def open(self) -> None:
        """Start the first worker, so that errors appear before the first job."""
        await self.run(os.getpid)

    async def close(self) -> None:
        """End all processes, including busy ones."""
        await asyncio.gather(self._small.close(), self._large.close())

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a module-level function, called in a worker process.

        Raises:
            WorkerDiedError: if the process dies twice, or the server stops.
        """
        content = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        pool = self._large if len(content) > _LARGE else self._small
        reply = await pool.reply(content)
        del content  # the traceback of an error would keep it alive
        is_result, value = _unpickled(reply)
        if is_result:
            result: T = value
            return result
        raise value


class _Pool:
    """A pool of worker processes, started on demand.

    If the caller of a job is cancelled, because its client has disconnected or a deadline has
    passed, the job is ended with its process. A long job frees its place in the pool: another
    worker is started for the jobs behind it. Above a limit of such jobs, a job is ended instead,
    and started again when another long job has finished.
    """

    def __init__(self, size: int, nice: int = 0) -> None:
        self._size = size
        self._nice = nice
        self._long_jobs = asyncio.Semaphore(size * _LONG_JOBS)
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._starting = 0
        self._waiting: deque[asyncio.Future[_Worker]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # that start or end workers
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        for waiter in self._waiting:
            waiter.cancel()
        await asyncio.gather(*map(self._end, [*self._workers]), *self._tasks,
                             return_exceptions=True)

    async def reply(self, content: bytes) -> bytearray:
        """The reply of a worker to a job."""
        try:
            return await self._reply(content)
        except WorkerDiedError:  # the worker may have been killed while idle: retry once
            return await self._reply(content)

    async def _reply(self, content: bytes) -> bytearray:
        async with self._job(content) as (worker, job):
            while not (job.done() or worker.takes_long):
                await asyncio.wait({job}, timeout=_LONG)
            if not (job.done() or self._long_jobs.locked()):
                async with self._long_jobs:
                    await self._finish_long(worker, job)
            if job.done():
                return job.result()
        async with self._long_jobs, self._job(content) as (worker, job):
            await self._finish_long(worker, job)
            return job.result()

    @asynccontextmanager
    async def _job(self, content: bytes) -> AsyncIterator[
            tuple[_Worker, asyncio.Future[bytearray]]]:
        """A running job and its worker; on exit, an unfinished job is ended."""
        worker = await self._take()
        job = worker.ask(content)
        try:
            yield worker, job
        finally:
            if not job.done():
                self._in_background(self._abandon(worker, job))
            elif job.exception() is None:
                self._give_back(worker)
            else:
                self._in_background(self._end(worker))

    async def _take(self) -> _Worker:
        if self._is_closed:
            raise WorkerDiedError("the worker processes have been stopped")
        waiter: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._assign()
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # a worker was assigned just before the cancellation
                self._give_back(waiter.result())
            raise

    def _assign(self) -> None:
        """Assign idle workers to waiting jobs, and start another one if the pool has room."""
        while self._waiting and (self._idle or self._waiting[0].done()):
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(self._idle.pop())
        present = len(self._workers) + self._starting
        if self._waiting and self._starting < len(self._waiting) and not self._is_closed and (
                present - self._long < self._size):
            self._starting += 1
            self._in_background(self._start())

    @property
    def _long(self) -> int:
        return sum(worker.is_long for worker in self._workers)

    async def _start(self) -> None:
        try:
            worker = await asyncio.to_thread(_Worker.start, self._nice)
        except Exception as error:
            if not self._workers and self._waiting:
                self._waiting.popleft().set_exception(MinriskError(
                    f"no worker process can be started: {type(error).__name__}: {error}"))
            return
        finally:
            self._starting -= 1
        self._workers.add(worker)
        if self._is_closed:
            await self._end(worker)
        else:
            self._give_back(worker)
            self._assign()  # starts another one if jobs are still waiting

    async def _finish_long(self, worker: _Worker, job: asyncio.Future[bytearray]) -> None:
        """Wait for a long job, at low priority and outside the pool's size."""
        worker.yield_processor()
        self._assign()
        await asyncio.wait({job})

    def _give_back(self, worker: _Worker) -> None:
        if worker.is_long or self._is_closed:  # its priority stays low
            self._in_background(self._end(worker))
        else:
            self._idle.append(worker)
            self._assign()

    async def _abandon(self, worker: _Worker, job: asyncio.Future[bytearray]) -> None:
        """Wait briefly for a job whose caller was cancelled, then end its process."""
        await asyncio.wait({job}, timeout=0 if worker.takes_long else _ABANDON_GRACE)
        if job.done() and job.exception() is None:
            self._give_back(worker)
            return
        job.cancel()
        await asyncio.wait({job})
        await self._end(worker)

    async def _end(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            self._assign()
            await asyncio.to_thread(worker.end)
            worker.connection.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _unpickled(content: bytearray) -> Any:
    """Unpickle without garbage collection, which would scan all objects several times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return pickle.loads(content)
    finally:
        if was_enabled:
            gc.enable()


def _serve(connection: socket.socket, nice: int) -> None:
    """The main loop of a worker process, until the server closes the connection."""
    if sys.platform != "win32":  # Windows has no niceness
        with suppress(OSError):
            os.nice(nice)
    ignore_interrupts()
    signal.signal(signal.SIGTERM, _exit)
    threading.Thread(target=_end_with_server, daemon=True).start()
    warnings.showwarning = _show_warning
    with connection, connection.makefile("rb") as messages:
        while header := messages.read(_HEADER.size):
            reply = _reply(messages.read(_HEADER.unpack(header)[0]))
            with suppress(ConnectionError):
                connection.sendall(_HEADER.pack(len(reply)) + reply)


def _reply(message: bytes) -> bytes:
    try:
        function, args = pickle.loads(message)
        return pickle.dumps((True, function(*args)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return _pickled_error(error)


def _pickled_error(error: Exception) -> bytes:
    with suppress(Exception):
        content = pickle.dumps((False, error))
        pickle.loads(content)  # some exceptions pickle but do not unpickle
        return content
    return pickle.dumps((False, MinriskError(f"{type(error).__name__}: {error}")))


def _exit(*_: object) -> None:
    """Exit by an exception, so that metrics end the programs that they started."""
    sys.exit(0)


def _end_with_server() -> None:
    """Exit when the server's process has ended, even during a long call."""
    server = parent_process()
    assert server is not None
    server.join()
    signal.raise_signal(signal.SIGTERM)
    time.sleep(_EXIT)
    os._exit(1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"minrisk: warning: {message}", file=sys.stderr)
