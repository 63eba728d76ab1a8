"""Blocks of a matrix of pairs that are worked on one after the other."""

from __future__ import annotations

from collections.abc import Iterator


def blocks(rows: int, columns: int, pairs: int,
           upper: bool = False) -> Iterator[tuple[slice, slice]]:
    """Blocks of a matrix with so many cells at most; `upper` leaves out what is below them."""
    width = max(1, min(columns, pairs))
    for strip in slices(0, rows, max(1, pairs // width)):
        for block in slices(strip.start if upper else 0, columns, width):
            yield strip, block


def slices(start: int, stop: int, size: int) -> Iterator[slice]:
    return (slice(i, min(i + size, stop)) for i in range(start, stop, size))
