"""Attributes that are computed on first use and cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it has in Python 3.11.

    A process that is forked while another thread holds the lock would wait for it for ever. Threads
    that compute a value at the same time all get the first one that is stored.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, _: type) -> T:
        # in the instance's own dictionary, where it is found first from now on
        value: T = owner.__dict__.setdefault(self._compute.__name__, self._compute(owner))
        return value
