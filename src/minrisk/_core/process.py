"""What belongs to the process: its threads, its listener to progress, and how it calls user code.

Exceptions of user code become an InputError. In a process of ours, such as a command, its prints go
to standard error: standard output has the results. In a process of the user's, both its streams and
its signal handlers are left alone.
"""

from __future__ import annotations

import os
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
        count: from 1 to 1024; None for one per core that this process may run on. Unless it is
            set, the environment variable MINRISK_THREADS is read.

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
    """Whatever is set inside holds inside only."""
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
    """Report that `done` of `total` units of work are finished, as in 3 of 8 texts encoded."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Call the listener with all progress that is reported inside the context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


_is_ours = False


@contextmanager
def own_process() -> Iterator[None]:
    """Inside, this process is one of ours: a command, whose standard output has the results, or a
    worker.
    """
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
    """Import user code; in a process of ours, what it prints goes to standard error."""
    with foreign_code(failure, advice), redirect_stdout(sys.stderr) if _is_ours else nullcontext():
        yield


@contextmanager
def foreign_code(failure: str, advice: str = "") -> Iterator[None]:
    """Run user code: exceptions (and exits) become an InputError; Ctrl-C does not."""
    try:
        yield
    except (MinriskError, KeyboardInterrupt):
        raise
    except BaseException as error:  # user code may raise anything, also SystemExit
        raise InputError(f"{failure}: {type(error).__name__}: {error}{advice}") from error
