"""Several processes that serve one port (`serve --workers`), and what they share.

The first process only starts the others, and again those that die. All listen to the same port, of
which the kernel gives each its part of the connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from mmap import mmap
from pathlib import Path
from typing import Any

from minrisk._core.errors import InputError
from minrisk.server.monitoring import log, now
from minrisk.server.sampling import Load

_LOOK = 0.05  # seconds between two looks at the processes
_SHORTEST = 1.0  # seconds from a start of a process to the next one
_SLACK = 3.0  # seconds after the grace period until processes are killed
_ASK = 1.0  # seconds to wait for the answer of another process
_SAVE = 1.0  # seconds between two copies of the metrics, for the process that may take over
_WORDS = 2  # numbers that a process shares: samples being drawn, and requests that wait
_SIGNALS = [number for name in ("SIGTERM", "SIGINT", "SIGHUP")
            if (number := getattr(signal, name, None)) is not None]

# what Windows lacks, where `_reserved` refuses before any of it is used
_POSIX: Any = os
_POSIX_IO: Any = asyncio
_POSIX_SIGNAL: Any = signal

METRICS, RECENT = "metrics", "recent"  # questions to other processes
State = Any  # what a process tells the others: JSON


class SharedLoad(Load):
    """The counts of all processes; each one writes its own, under a lock that ends with it."""

    is_shared = True

    def __init__(self, processes: int) -> None:
        self._cells = memoryview(mmap(-1, 8 * _WORDS * processes)).cast("q")
        self._file, path = tempfile.mkstemp()  # for the lock; open until the process ends
        os.unlink(path)
        self._own = 0

    def of_process(self, number: int) -> None:
        """Count for this process; what one before it has left is forgotten."""
        self._own = _WORDS * number
        with self._locked():
            self._cells[self._own] = self._cells[self._own + 1] = 0

    @property
    def in_use(self) -> int:
        return sum(self._cells[::_WORDS])

    @property
    def waiting(self) -> int:
        return sum(self._cells[1::_WORDS])

    def take(self, size: int, capacity: int) -> bool:
        with self._locked():
            is_free = self.in_use + size <= capacity
            self._cells[self._own] += size if is_free else 0
        return is_free

    def give(self, size: int) -> None:
        with self._locked():
            self._cells[self._own] -= size

    def wait(self, requests: int) -> None:
        with self._locked():
            self._cells[self._own + 1] += requests

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl: Any = import_module("fcntl")  # Windows has none
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)


@dataclass
class Process:
    """The place of a process among those that serve a port."""

    number: int
    count: int
    folder: Path  # with the socket of each process, which only this user may open
    counts: SharedLoad
    lifeline: int  # a pipe that ends with the first process
    reports: int  # a pipe to the first process
    is_replacement: bool  # whether it takes the place of one that has died

    @property
    def compute_workers(self) -> int:
        """Its part of the CPUs."""
        return max(1, (os.cpu_count() or 1) // self.count)

    def announce(self, url: str, problem: str | None) -> None:
        """Tell the first process that this one answers requests."""
        os.write(self.reports, f"{json.dumps([url, problem])}\n".encode())

    @contextmanager
    def connected(self, tell: Callable[[str], State], stop: asyncio.Event) -> Iterator[None]:
        """Answer the questions of other processes; stop when the first process ends."""
        loop = asyncio.get_running_loop()
        path = self._socket(self.number)
        path.unlink(missing_ok=True)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, ValueError):
                question = (await reader.readline()).decode().strip()
                writer.write(json.dumps(tell(question)).encode())
                await writer.drain()
            writer.close()

        async def save() -> None:
            copy = self._saved.with_suffix(".new")
            while True:
                await asyncio.sleep(_SAVE)
                with suppress(OSError):  # a full disk
                    copy.write_text(json.dumps(tell(METRICS)), encoding="utf-8")
                    copy.replace(self._saved)

        saving = loop.create_task(save())
        listening = loop.create_task(_POSIX_IO.start_unix_server(answer, path))
        loop.add_reader(self.lifeline, stop.set)
        try:
            yield
        finally:
            loop.remove_reader(self.lifeline)
            saving.cancel()
            listening.cancel()
            if listening.done() and not listening.cancelled():
                listening.result().close()

    async def ask(self, question: str) -> list[State]:
        """The answers of the other processes; those that do not answer are left out."""
        answers = await asyncio.gather(*(
            self._ask(number, question) for number in range(self.count) if number != self.number),
            return_exceptions=True)
        return [one for one in answers if not isinstance(one, BaseException)]

    async def _ask(self, number: int, question: str) -> State:
        async with asyncio.timeout(_ASK):
            reader, writer = await _POSIX_IO.open_unix_connection(self._socket(number))
            try:
                writer.write(f"{question}\n".encode())
                return json.loads(await reader.read())
            finally:
                writer.close()

    def _socket(self, number: int) -> Path:
        return self.folder / f"{number}"

    @property
    def _saved(self) -> Path:
        return self.folder / f"{self.number}.json"

    def earlier_metrics(self) -> State:
        """What the process before this one counted, but for its last second; None at the start."""
        try:
            return json.loads(self._saved.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None


Ask = Callable[[str], Awaitable[list[State]]]


async def no_others(_: str) -> list[State]:
    """The answers of the other processes of a server that has one."""
    return []


def start(count: int, host: str, port: int, grace: float,
          announce: Callable[[str, str | None], None]) -> tuple[Process | int, int]:
    """Start processes: each returns with its place and the port, the first one with its exit code.
    """
    with _reserved(host, port) as own_port:
        folder = Path(tempfile.mkdtemp(prefix="minrisk-"))
        found = _Supervisor(count, folder, grace, announce).run()
        if not isinstance(found, Process):  # this is the first process
            shutil.rmtree(folder, ignore_errors=True)
    return found, own_port


@contextmanager
def _reserved(host: str, port: int) -> Iterator[int]:
    """A port that several processes can listen to."""
    if not (hasattr(socket, "SO_REUSEPORT") and hasattr(os, "fork")):
        raise InputError("--workers needs SO_REUSEPORT and fork, which this system lacks; leave it "
                         "out, or start several servers behind a proxy")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.create_server(address[:2], family=family, reuse_port=False) as other:
            number: int = other.getsockname()[1]  # no other server listens to it
        with socket.socket(family) as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reserved.bind((address[0], number))
            yield number
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose "
                         "another --port") from None


class _Supervisor:
    """Starts processes, again if they die, and ends them."""

    def __init__(self, count: int, folder: Path, grace: float,
                 announce: Callable[[str, str | None], None]) -> None:
        self._count = count
        self._folder = folder
        self._grace = grace
        self._announce = announce
        self._counts = SharedLoad(count)
        self._lifeline, self._alive = os.pipe()
        self._reports, self._report = os.pipe()
        self._running: dict[int, tuple[int, float]] = {}  # process id -> its number and start
        self._ready = 0  # processes that have announced themselves
        self._end: float | None = None  # when processes are killed

    def run(self) -> Process | int:
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self._stop())
        for number in range(self._count):
            if (process := self._start(number)) is not None:
                return process
        code = 0
        while self._running:
            self._read_reports()
            if self._end is not None and time.monotonic() > self._end:
                self._signal(_POSIX_SIGNAL.SIGKILL)
            try:
                ended, status = os.waitpid(-1, _POSIX.WNOHANG)
            except ChildProcessError:
                break
            if not ended:
                time.sleep(_LOOK)
                continue
            number, begin = self._running.pop(ended)
            if self._end is not None:
                continue
            code = os.waitstatus_to_exitcode(status)
            if self._ready < self._count:  # it has said why it cannot start
                self._stop()
            elif (process := self._restart(number, begin, code)) is not None:
                return process
            else:
                code = 0
        return code

    def _restart(self, number: int, begin: float, code: int) -> Process | None:
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        log(json.dumps({"time": now(), "worker": number, "ended": reason, "started": "again"}))
        time.sleep(max(0.0, begin + _SHORTEST - time.monotonic()))
        return None if self._end is not None else self._start(number, is_replacement=True)

    def _start(self, number: int, is_replacement: bool = False) -> Process | None:
        """Start a process, in which this returns its place."""
        sys.stdout.flush()
        sys.stderr.flush()
        child = _POSIX.fork()
        if child:
            self._running[child] = number, time.monotonic()
            return None
        for known in _SIGNALS:
            signal.signal(known, signal.SIG_DFL)
        os.close(self._alive)
        os.close(self._reports)
        self._counts.of_process(number)
        return Process(number, self._count, self._folder, self._counts, self._lifeline,
                       self._report, is_replacement)

    def _read_reports(self) -> None:
        while select.select([self._reports], [], [], 0)[0]:
            for line in os.read(self._reports, 4096).splitlines():
                self._ready += 1
                if self._ready == self._count:
                    self._announce(*json.loads(line))

    def _stop(self) -> None:
        if self._end is None:
            self._end = time.monotonic() + self._grace + _SLACK
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for child in self._running:
            with suppress(ProcessLookupError):
                os.kill(child, number)
