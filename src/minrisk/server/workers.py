"""Worker processes for all work whose time depends on content: it ends when nobody waits for it."""

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
_PIECE = 1 << 20  # bytes that are read at a time
_LONG = 0.25  # seconds of computing after which other jobs get a further worker, and go first
_VERY_LONG = 1.0  # seconds after which they do if a job waits, as for a program
_LEFT = 0.25  # seconds for which a job that nobody waits for may go on
_EXIT = 0.5  # seconds that a worker has to end the programs that it started
_LARGE = 1 << 18  # bytes of a job that has workers of its own
_FURTHER = 4  # workers for each core that long jobs may occupy
_NICE = 19  # of a worker with a long job
_METHODS = get_all_start_methods()
# not "fork": locks that other threads hold would never be released
_CONTEXT: Any = get_context("forkserver" if "forkserver" in _METHODS else "spawn")
if "forkserver" in _METHODS:  # what each worker needs is imported once
    _CONTEXT.set_forkserver_preload(["__main__", "minrisk.server.choosing"])


class WorkerDiedError(MinriskError):
    """The process of a job has ended, as if it ran out of memory."""


@dataclass(eq=False)
class _Worker:
    """A process that does one job after the other."""

    process: BaseProcess
    connection: socket.socket
    is_long: bool = False  # its job takes long
    begin: float = 0.0  # of its job
    computed_before: float = 0.0  # seconds

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
        """The reply to a message, which comes later."""
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
        loop, found = asyncio.get_running_loop(), bytearray()
        while len(found) < size:
            piece = await loop.sock_recv(self.connection, min(_PIECE, size - len(found)))
            if not piece:
                raise ConnectionResetError
            found += piece
        return found

    @property
    def takes_long(self) -> bool:
        """Whether its job has computed or waited for long; on a busy machine, others compute."""
        computed, is_ready = self._status()
        return computed - self.computed_before > _LONG or (
            not is_ready and time.monotonic() - self.begin > _VERY_LONG)

    def _status(self) -> tuple[float, bool]:
        """Seconds that the process has computed, and whether it only waits for the processor.

        Where the system does not say, those of the clock.
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
        """Let the processes of other jobs go first."""
        self.is_long = True
        if sys.platform != "win32":  # which has no priorities of this kind
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.process.pid or 0, _NICE)

    def end(self) -> None:
        """End the process, whatever it does, and its job with an error."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.process.terminate()  # it ends the programs that it has started
        self.process.join(_EXIT)
        self.process.kill()
        self.process.join()


class Workers:
    """Worker processes for jobs; large ones, which may take long, do not delay small ones."""

    def __init__(self, size: int) -> None:
        self._small, self._large = _Pool(size), _Pool(max(1, size // 2), _NICE)

    async def open(self) -> None:
        """Start the first worker, so that errors appear before the first job."""
        await self.run(os.getpid)

    async def close(self) -> None:
        """End all processes, also those that work."""
        await asyncio.gather(self._small.close(), self._large.close())

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function of a module, computed in a worker process.

        Raises:
            WorkerDiedError: if the process ends by itself, twice, or because the server stops.
        """
        content = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        pool = self._large if len(content) > _LARGE else self._small
        reply = await pool.reply(content)
        del content  # which the traceback of an error would keep
        is_result, found = _unpickled(reply)
        if is_result:
            result: T = found
            return result
        raise found


class _Pool:
    """A pool of worker processes, which start when they are needed.

    A job whose caller is cancelled, because a client has left or a deadline has passed, is ended
    with its process. Jobs that take long do not keep others waiting: there are further workers for
    these, up to a limit, above which a job is ended and begun again when another one is finished.
    """

    def __init__(self, size: int, nice: int = 0) -> None:
        self._size = size
        self._nice = nice
        self._long_turns = asyncio.Semaphore(size * _FURTHER)
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._starting = 0
        self._waiting: deque[asyncio.Future[_Worker]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # of workers that start or end
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        for turn in self._waiting:
            turn.cancel()
        await asyncio.gather(*map(self._end, [*self._workers]), *self._tasks,
                             return_exceptions=True)

    async def reply(self, content: bytes) -> bytearray:
        """The reply of a worker to a job."""
        try:
            return await self._reply(content)
        except WorkerDiedError:  # the system may have ended it while it was idle
            return await self._reply(content)

    async def _reply(self, content: bytes) -> bytearray:
        async with self._job(content) as (worker, job):
            while not (job.done() or worker.takes_long):
                await asyncio.wait({job}, timeout=_LONG)
            if not (job.done() or self._long_turns.locked()):
                async with self._long_turns:
                    await self._outlast(worker, job)
            if job.done():
                return job.result()
        async with self._long_turns, self._job(content) as (worker, job):
            await self._outlast(worker, job)
            return job.result()

    @asynccontextmanager
    async def _job(self, content: bytes) -> AsyncIterator[
            tuple[_Worker, asyncio.Future[bytearray]]]:
        """A job, and the worker that does it; it is ended if it is not finished at the end."""
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
        turn: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._assign()
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at the same moment
                self._give_back(turn.result())
            raise

    def _assign(self) -> None:
        """Give idle workers to those who wait, and start a further one where that is due."""
        while self._waiting and (self._idle or self._waiting[0].done()):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._idle.pop())
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
            self._assign()  # others may wait for a further one

    async def _outlast(self, worker: _Worker, job: asyncio.Future[bytearray]) -> None:
        """Wait for a job that takes long, behind others."""
        worker.yield_processor()
        self._assign()
        await asyncio.wait({job})

    def _give_back(self, worker: _Worker) -> None:
        if worker.is_long or self._is_closed:  # its priority is low, and there are others
            self._in_background(self._end(worker))
        else:
            self._idle.append(worker)
            self._assign()

    async def _abandon(self, worker: _Worker, job: asyncio.Future[bytearray]) -> None:
        """Wait a moment for a job that nobody needs; if it goes on, end its process."""
        await asyncio.wait({job}, timeout=0 if worker.takes_long else _LEFT)
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
    """Without the collector of garbage, which would look at all objects several times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return pickle.loads(content)
    finally:
        if was_enabled:
            gc.enable()


def _serve(connection: socket.socket, nice: int) -> None:
    """The main loop of a worker process, until its server has closed the connection."""
    if sys.platform != "win32":  # which has no priorities of this kind
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
        found = pickle.dumps((False, error))
        pickle.loads(found)
        return found
    return pickle.dumps((False, MinriskError(f"{type(error).__name__}: {error}")))


def _exit(*_: object) -> None:
    """End the main thread by an exception, on which metrics end the programs that they started."""
    sys.exit(0)


def _end_with_server() -> None:
    """Exit when the server is gone, also during a long call."""
    server = parent_process()
    assert server is not None
    server.join()
    signal.raise_signal(signal.SIGTERM)
    time.sleep(_EXIT)
    os._exit(1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"minrisk: warning: {message}", file=sys.stderr)
