"""Values that are computed when they are first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """As `functools.cached_property`, but without the lock that it has in Python 3.11.

    A process that was forked while another thread held it would find it locked for ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, _: type) -> T:
        value: T = self._compute(owner)
        owner.__dict__[self._compute.__name__] = value  # found there from now on
        return value
