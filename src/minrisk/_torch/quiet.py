"""Keeps other packages from using standard input, standard output and the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from minrisk._core.process import is_own_process


@contextmanager
def unattended() -> Iterator[None]:
    """Suppress notes and progress bars of other packages while something is loaded.

    In our own processes, standard input and output carry the user's data and results: prints are
    discarded, and a prompt for input gets an end of file.
    """
    with ExitStack() as stack:
        if is_own_process():
            stack.enter_context(redirect_stdout(io.StringIO()))
            stack.enter_context(_empty_input())
        if "transformers" in sys.modules:
            stack.enter_context(_quiet_transformers())
        yield


@contextmanager
def _empty_input() -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = before


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Suppress its notes and progress bars, which would break our own progress line."""
    from transformers.utils import logging as found

    logging: Any = found  # untyped
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
