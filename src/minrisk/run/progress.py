"""Progress on standard error: a live line on a terminal, otherwise plain lines."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable

_LIVE = 0.1  # seconds between updates on a terminal
_PLAIN = 10.0  # seconds between plain lines
_WIDTH = 24  # characters of the bar
_CLEAR = "\r\x1b[K"


class RunProgress:
    """Counts segments, and shows progress unless quiet."""

    def __init__(self, quiet: bool, fraction: Callable[[], float | None] = lambda: None,
                 live: bool = True, rephrase: Callable[[str], str] = str) -> None:
        """`rephrase` is applied to messages; commands use it to name options by flags."""
        self.done = 0
        self.failed = 0
        self.counts: Counter[str] = Counter()  # further counts, such as pairs
        self._quiet = quiet
        self.total: int | None = None  # segments of this run, if known
        self._read = fraction  # returns the share of the input that has been read, if known
        self._live = live
        self._rephrase = rephrase
        self._stage = ""
        self._start = self._shown = time.monotonic()

    @property
    def is_terminal(self) -> bool:
        return self._live and sys.stderr is not None and sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)

    def advance(self, failed: int = 0, **counts: int) -> None:
        """Count a segment, with its further counts."""
        self.done += 1
        self.failed += failed
        self.counts.update({name: count for name, count in counts.items() if count})
        self._stage = ""
        self._show_in_time()

    def stage(self, what: str, done: int, total: int) -> None:
        """Show the current step of a metric or sampler within a batch of segments."""
        self._stage = f"{what}: {done:,} of {total:,}"
        self._show_in_time()

    def _show_in_time(self) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._shown >= (_LIVE if self.is_terminal else _PLAIN):
            self._shown = now
            self._show()

    def note(self, message: str) -> None:
        if not self._quiet:
            self.error(message)

    def error(self, message: str) -> None:
        """Print a message, also if quiet."""
        _print(f"{_CLEAR if self.is_terminal else ''}minrisk: {self._rephrase(message)}\n")

    def finish(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        counts = "".join(f", {count:,} {name}" for name, count in self.counts.items())
        self.note(f"{count_of(self.done, 'segment')}{failed}{counts}, {self.seconds:.1f} s, "
                  + ", ".join(f"{count / self.seconds:.1f} {name}/s" for name, count
                              in [("segments", self.done), *self.counts.items()]))

    def _fraction(self) -> float | None:
        """The share of the work that is done: of segments, or of the bytes of a large input."""
        if self.total is not None:
            return min(1.0, self.done / self.total) if self.total else 1.0
        return self._read() if self.done else None  # the first batch may be read far ahead

    def _show(self) -> None:
        fraction = self._fraction()
        count = (count_of(self.done, "segment") if self.total is None
                 else f"{self.done:,} of {count_of(self.total, 'segment')}")
        share = "" if fraction is None else f" ({fraction:.0%})"
        parts = [f"{count}{share}"]
        if fraction and fraction < 1:
            parts.append(f"{_clock(self.seconds * (1 - fraction) / fraction)} left")
        if self._stage:
            parts.append(self._stage)
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.done:
            parts.append(f"{self.done / self.seconds:.1f} segments/s")
        line = ", ".join(parts)
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1  # a wrapped line could not be cleared
            bar = "" if fraction is None else _bar(fraction)
            _print(_CLEAR + (bar if len(bar) + len(line) <= width else "") + line[:width])
        else:
            _print(f"minrisk: {line}\n")


def _print(text: str) -> None:
    if sys.stderr is not None:  # with None, `print` would write to standard output
        print(text, end="", file=sys.stderr, flush=True)


def count_of(number: int, unit: str) -> str:
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def _bar(fraction: float) -> str:
    full = round(_WIDTH * fraction)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] "


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
