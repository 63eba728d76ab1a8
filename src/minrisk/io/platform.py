"""Differences between operating systems: file locks, and peak memory.

Modules are imported on use, because no system has all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any

# Windows locks bytes, which others then cannot read: this one is far beyond the content, and within
# the 32-bit offsets of the C library
_LOCKED_BYTE = 2**31 - 2


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file; returns whether this process has the lock.

    The lock ends when the file is closed. On systems without locks, every attempt succeeds.
    """
    try:
        _lock()(descriptor)
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """The peak memory of this process; None if the system does not report it."""
    try:
        resource: Any = import_module("resource")
    except ImportError:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@cache
def _lock() -> Callable[[int], None]:
    for name, lock in (("fcntl", _lock_file), ("msvcrt", _lock_byte)):
        with suppress(ImportError):
            return partial(lock, import_module(name))
    return lambda descriptor: None


def _lock_file(fcntl: Any, descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_byte(msvcrt: Any, descriptor: int) -> None:
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
