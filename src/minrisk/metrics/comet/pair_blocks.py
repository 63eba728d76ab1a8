"""The matrix of pairs in blocks, and progress reports."""

from __future__ import annotations

import time
from collections.abc import Iterator

from minrisk._core.errors import warn
from minrisk._core.process import report_progress

_WARN_AFTER_SECONDS = 20.0  # expected seconds per segment above which to warn


def blocks(rows: int, columns: int, pairs: int,
           upper: bool = False) -> Iterator[tuple[slice, slice]]:
    """Blocks of at most `pairs` cells of a matrix; `upper` skips those below the diagonal."""
    width = max(1, min(columns, pairs))
    for strip in slices(0, rows, max(1, pairs // width)):
        for block in slices(strip.start if upper else 0, columns, width):
            yield strip, block


def slices(start: int, stop: int, size: int) -> Iterator[slice]:
    """The range from start to stop, in slices of `size`."""
    return (slice(i, min(i + size, stop)) for i in range(start, stop, size))


class PairProgress:
    """Reports scored pairs; on a CPU, warns early if the segment will take long."""

    def __init__(self, total: int, on_cpu: bool) -> None:
        self._total = total
        self._warns = on_cpu
        self._done = 0
        self._start = time.monotonic()

    def advance(self, pairs: int) -> None:
        self._done += pairs
        report_progress("pairs scored", self._done, self._total)
        if self._warns:
            self._warns = False
            self._warn((time.monotonic() - self._start) * self._total / self._done)

    def _warn(self, seconds: float) -> None:
        if seconds > _WARN_AFTER_SECONDS:
            warn(f"the {self._total:,} pairs of a segment take about {_rounded(seconds)} on this "
                 "CPU; the strategies aggregate and aggregate-to-fine take seconds")


def _rounded(seconds: float) -> str:
    """A coarse duration, so that the warning is equal for all segments and shown once."""
    digits = 10 ** (len(str(int(seconds))) - 1)
    coarse = round(seconds / digits) * digits
    return f"{coarse} s" if coarse < 120 else f"{round(coarse / 60)} min"
