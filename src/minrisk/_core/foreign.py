"""Calls of user code: its prints go to standard error, its exceptions become an InputError."""

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
    """Run user code: prints go to standard error, exceptions (and exits) become an InputError."""
    with _interrupts() as interrupts:
        try:
            with _STDOUT_TO_STDERR:
                yield
        except MinriskError:
            raise
        except BaseException as error:  # user code may raise anything, also SystemExit
            if isinstance(error, KeyboardInterrupt) and (interrupts or _is_ours(error)):
                raise
            raise InputError(f"{failure}: {type(error).__name__}: {error}{advice}") from error


class _StdoutRedirect:
    """Redirects standard output to standard error while any thread is inside."""

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
    """The SIGINTs received inside: they distinguish Ctrl-C from a KeyboardInterrupt of the code."""
    seen: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield seen
        return

    def record(number: int, frame: Any) -> None:
        seen.append(number)
        handler(number, frame)

    signal.signal(signal.SIGINT, record)
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGINT) is record:
            signal.signal(signal.SIGINT, handler)


def _is_ours(error: KeyboardInterrupt) -> bool:
    """Whether it is an interrupt that the command line raises for another signal."""
    return type(error) is not KeyboardInterrupt
