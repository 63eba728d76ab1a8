"""The number of threads of the native core. Results never depend on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from minrisk._core.errors import InputError

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
    if count is not None and not 1 <= count <= MAX_THREADS:
        raise InputError(f"threads must be a number from 1 to {MAX_THREADS}; got {count}")
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
