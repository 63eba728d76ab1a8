"""How far a run is, on standard error only: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import click

_LIVE = 0.1  # seconds between updates on a terminal
_PLAIN = 10.0
_WIDTH = 24


class Progress:
    """Counts segments, and tells about them unless quiet."""

    def __init__(self, quiet: bool, fraction: Callable[[], float | None],
                 live: bool = True) -> None:
        self.done = 0
        self.failed = 0
        self.pairs = 0
        self._quiet = quiet
        self._fraction = fraction  # of the input that was read, if its size is known
        self._live = live
        self._start = self._told = time.monotonic()

    @property
    def is_terminal(self) -> bool:
        return self._live and sys.stderr.isatty()

    def advance(self, failed: bool = False, pairs: int = 0) -> None:
        self.done += 1
        self.failed += failed
        self.pairs += pairs
        now = time.monotonic()
        if not self._quiet and now - self._told >= (_LIVE if self.is_terminal else _PLAIN):
            self._told = now
            self._tell()

    def note(self, message: str) -> None:
        if not self._quiet:
            self._clear()
            click.echo(f"minrisk: {message}", err=True)

    def finish(self) -> None:
        seconds = self._seconds()
        failed = f", {self.failed} failed" if self.failed else ""
        pairs = f", {self.pairs:,} pairs evaluated" if self.pairs else ""
        self.note(f"{_count(self.done)}{failed}, {seconds:.1f} s, "
                  f"{self.done / seconds:.1f} segments/s{pairs}")

    def _tell(self) -> None:
        fraction = self._fraction()
        parts = [_count(self.done), f"{self.done / self._seconds():.1f} segments/s"]
        if fraction:
            left = self._seconds() * (1 - fraction) / fraction
            parts.append(f"{_clock(left)} left")
        line = ", ".join(parts)
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be cleared
            click.echo("\r\x1b[K" + f"{_bar(fraction)}{line}"[:width], nl=False, err=True)
        else:
            click.echo(f"minrisk: {line}", err=True)

    def _clear(self) -> None:
        if self.is_terminal:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)


def _count(segments: int) -> str:
    return f"{segments} segment" if segments == 1 else f"{segments} segments"


def _bar(fraction: float | None) -> str:
    if fraction is None:
        return ""
    full = round(_WIDTH * fraction)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] {fraction:4.0%} "


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
