"""Progress of long work: metrics and samplers report it to a listener, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
