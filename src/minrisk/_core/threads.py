"""How many threads the native core may use. Results never depend on it."""

from __future__ import annotations

import os

from minrisk._core.errors import InputError

MAX_THREADS = 1024
_threads: int | None = None


def set_threads(count: int | None) -> None:
    """Use this many threads; None means one per core that this process may run on."""
    global _threads
    if count is not None and not 1 <= count <= MAX_THREADS:
        raise InputError(f"{count} threads; choose from 1 to {MAX_THREADS}")
    _threads = count


def threads() -> int:
    if _threads is not None:
        return _threads
    given = os.environ.get("MINRISK_THREADS")
    if given is None:
        return _cores()
    if not given.isdecimal() or not 1 <= int(given) <= MAX_THREADS:
        raise InputError(f"MINRISK_THREADS is {given!r}; wanted a number from 1 to {MAX_THREADS}")
    return int(given)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
