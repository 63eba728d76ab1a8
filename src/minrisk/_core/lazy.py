"""Attributes that are computed on first use and cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that Python 3.11 takes.

    A process forked while another thread holds that lock would deadlock. Threads that compute a
    value concurrently all get the one that is stored first.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, _: type) -> T:
        # stored in the instance's dictionary, where the next access finds it
        value: T = owner.__dict__.setdefault(self._compute.__name__, self._compute(owner))
        return value
