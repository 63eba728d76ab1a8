"""How many threads the native core may use. Results never depend on it."""

from __future__ import annotations

import os

from minrisk.errors import InputError

_threads: int | None = None


def set_threads(count: int | None) -> None:
    """Use this many threads; None means one per core that this process may run on."""
    global _threads
    if count is not None and count < 1:
        raise InputError(f"{count} threads; at least one is needed")
    _threads = count


def threads() -> int:
    if _threads is not None:
        return _threads
    given = os.environ.get("MINRISK_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else _cores()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
