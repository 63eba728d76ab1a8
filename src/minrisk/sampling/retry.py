"""Asking again: a busy server is given more and more time, and never by all at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import sleep
from typing import TypeVar

from minrisk.errors import InputError
from minrisk.sampling.http import TemporaryError

FIRST = 1.0  # seconds before the first retry; doubled before each further one
_LONGEST = 600.0  # seconds that a server may ask to wait

T = TypeVar("T")


def patiently(ask: Callable[[], T], retries: int) -> T:
    """The answer, after as many retries as it takes; what is not temporary is raised at once."""
    for attempt in range(retries):
        try:
            return ask()
        except TemporaryError as error:
            _rest(error, attempt)
    try:
        return ask()
    except TemporaryError as error:
        raise InputError(f"{error}; gave up after {retries} retries; try again later, "
                         "with fewer requests at a time, or with more patience") from None


def _rest(error: TemporaryError, attempt: int) -> None:
    if error.wait > _LONGEST:
        raise InputError(f"{error}; the server asks to wait {error.wait:.0f} s; try again then")
    # jitter, so that requests that failed together do not come back together
    sleep(max(error.wait, FIRST * 2**attempt * random.uniform(0.5, 1.0)))
