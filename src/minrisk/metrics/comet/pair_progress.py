"""How far the pairs of a segment are, and a word of warning where they will take long."""

from __future__ import annotations

import time
import warnings

from minrisk._core.progress import report_progress

_LONG_SECONDS = 20.0  # seconds


class PairProgress:
    """Counts pairs; on a CPU it says after the first ones what all of them will take."""

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
        if seconds > _LONG_SECONDS:
            warnings.warn(
                f"the {self._total:,} pairs of a segment take about {_rounded(seconds)} on this "
                "CPU; the strategies aggregate and aggregate-to-fine take seconds", stacklevel=6)


def _rounded(seconds: float) -> str:
    """Coarsely, so that the same warning is not repeated for every segment."""
    digits = 10 ** (len(str(int(seconds))) - 1)
    coarse = round(seconds / digits) * digits
    return f"{coarse} s" if coarse < 120 else f"{round(coarse / 60)} min"
