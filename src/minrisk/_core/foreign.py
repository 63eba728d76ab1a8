"""Somebody else's code: what it prints is no result, and whatever it raises is its own failure."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minrisk._core.errors import InputError, MinriskError


@contextmanager
def foreign_code(failure: str, advice: str = "") -> Iterator[None]:
    """Prints go to standard error; all that is raised, an exit too, becomes an InputError."""
    with _interrupts() as interrupts:
        try:
            with _STDOUT_TO_STDERR:
                yield
        except MinriskError:
            raise
        except BaseException as error:  # it may fail in any way, also with sys.exit
            if isinstance(error, KeyboardInterrupt) and (interrupts or _is_ours(error)):
                raise
            raise InputError(f"{failure}: {type(error).__name__}: {error}{advice}") from error


class _StdoutRedirect:
    """Standard output is standard error while any thread is in here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._output: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._output, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.stdout, self._output = self._output, None


_STDOUT_TO_STDERR = _StdoutRedirect()


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The SIGINTs meanwhile, which tell Ctrl-C from a KeyboardInterrupt that the code raised."""
    seen: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield seen
        return

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, handler)


def _is_ours(error: KeyboardInterrupt) -> bool:
    """Other signals are interrupts of their own class."""
    return type(error) is not KeyboardInterrupt
