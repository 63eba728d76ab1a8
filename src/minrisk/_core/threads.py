"""How many threads the native core may use. Results never depend on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from minrisk._core.errors import InputError

_MOST = 1024
_threads: int | None = None


def set_threads(count: int | None) -> None:
    """Use this many threads; None means one per core that this process may run on."""
    global _threads
    if count is not None and not 1 <= count <= _MOST:
        raise InputError(f"{count} threads; choose from 1 to {_MOST}")
    _threads = count


def threads() -> int:
    if _threads is not None:
        return _threads
    given = os.environ.get("MINRISK_THREADS")
    if given is None:
        return _cores()
    if not given.isdecimal() or not 1 <= int(given) <= _MOST:
        raise InputError(f"MINRISK_THREADS is {given!r}; wanted a number from 1 to {_MOST}")
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
