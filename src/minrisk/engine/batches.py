"""Batches, and what to do with one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from minrisk.errors import InputError, MinriskError

BATCH = 16  # segments, where nobody likes more or fewer
LIGHT_BATCH = 64  # segments that take milliseconds each: to carry a block around costs more
OnError = Literal["stop", "skip"]

T = TypeVar("T")
R = TypeVar("R")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many; if the items break off with an error, it comes after the last of them."""
    batch: list[T] = []
    broken: MinriskError | None = None
    try:
        for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except MinriskError as error:
        broken = error  # an input that breaks off: what came before it is still good
    if batch:
        yield batch
    if broken:
        raise broken


def attempt(work: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T],
            failed: Callable[[T, Exception], R],
            is_worth: Callable[[Exception], bool]) -> list[R]:
    """A result for each item: a batch that fails is halved until only what fails alone is left.

    So one bad item costs no other, and what is too large together gets through in smaller batches.
    Errors that are not worth it are raised.
    """
    if not items:
        return []
    try:
        return list(work(items))
    except Exception as error:
        if not is_worth(error):
            raise
        if len(items) == 1:
            return [failed(items[0], error)]
    half = len(items) // 2
    return [result for part in (items[:half], items[half:])
            for result in attempt(work, part, failed, is_worth)]


def is_out_of_memory(error: Exception) -> bool:
    """By its name, for this must not import torch."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def placed(where: str, error: Exception) -> InputError:
    """The error with the part of the input that it is about."""
    kind = "" if isinstance(error, MinriskError) else f"{type(error).__name__}: "
    return InputError(f"{where}: {kind}{error}")
