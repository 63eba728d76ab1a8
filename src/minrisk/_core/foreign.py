"""Calls of user code, whose exceptions become an InputError.

In a process of ours, such as a command, its prints go to standard error: standard output has the
results. In a process of the user's, both its streams and its signal handlers are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout

from minrisk._core.errors import InputError, MinriskError

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
