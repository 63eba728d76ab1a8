"""Attributes that are computed on first use and cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it has in Python 3.11.

    A process that is forked while another thread holds the lock would wait for it for ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, _: type) -> T:
        value: T = self._compute(owner)
        owner.__dict__[self._compute.__name__] = value  # which is found first from now on
        return value
