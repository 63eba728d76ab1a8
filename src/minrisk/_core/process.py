"""State of the process (number of threads, progress listener), and calls of user code.

Exceptions in user code become an InputError. In our own processes (commands and workers), what it
prints goes to standard error, because standard output carries the results. In a process of the
user, streams and signal handlers are left alone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar

from minrisk._core.errors import InputError, MinriskError, brief

MAX_THREADS = 1024
_threads: int | None = None


def set_threads(count: int | None) -> None:
    """Set the number of threads that the native core uses in this process.

    Args:
        count: from 1 to 1024; None for the default: the environment variable MINRISK_THREADS, or
            else one per core that this process may run on.

    Raises:
        InputError: if the number is out of range.

    >>> import minrisk
    >>> minrisk.set_threads(2)
    >>> minrisk.set_threads(0)
    Traceback (most recent call last):
    minrisk.InputError: threads must be a number from 1 to 1024; got 0
    >>> minrisk.set_threads(None)
    """
    global _threads
    if count is not None and not (isinstance(count, int) and 1 <= count <= MAX_THREADS):
        raise InputError(f"threads must be a number from 1 to {MAX_THREADS}; got {brief(count)}")
    _threads = count


def threads() -> int:
    """The number of threads that was set, or the default."""
    if _threads is not None:
        return _threads
    given = os.environ.get("MINRISK_THREADS")
    if given is None:
        return _cores()
    if not given.isdecimal() or not 1 <= int(given) <= MAX_THREADS:
        raise InputError("MINRISK_THREADS must be a number from 1 to "
                         f"{MAX_THREADS}; got {given!r}")
    return int(given)


@contextmanager
def restored_threads() -> Iterator[None]:
    """Restore the number of threads on exit."""
    before = _threads
    try:
        yield
    finally:
        set_threads(before)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Listener = Callable[[str, int, int], None]  # unit of work ("texts encoded"), done, total

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report_progress(what: str, done: int, total: int) -> None:
    """Report progress, such as 3 of 8 "texts encoded"."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Call the listener with all progress that is reported within the context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back inside, also from processes that start inside, until they ignore it.

    Otherwise it would end them with a traceback while they import.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker  # which few need

    resource_tracker.ensure_running()  # it lets signals through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker process: the process that started it handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_is_ours = False


@contextmanager
def own_process() -> Iterator[None]:
    """Declare this process, within the context, our own: a command or a worker."""
    global _is_ours
    before, _is_ours = _is_ours, True
    try:
        yield
    finally:
        _is_ours = before


def is_own_process() -> bool:
    return _is_ours


@contextmanager
def foreign_import(failure: str, advice: str = "") -> Iterator[None]:
    """Import user code; in our own processes, what it prints goes to standard error."""
    with foreign_code(failure, advice), redirect_stdout(sys.stderr) if _is_ours else nullcontext():
        yield


@contextmanager
def foreign_code(failure: str, advice: str = "") -> Iterator[None]:
    """Run user code: exceptions and SystemExit become an InputError, KeyboardInterrupt does not."""
    try:
        yield
    except (MinriskError, KeyboardInterrupt):
        raise
    except BaseException as error:  # user code may raise anything, including SystemExit
        raise InputError(f"{failure}: {type(error).__name__}: {error}{advice}") from error
