"""The results of `minrisk validate`: means of every trial, a recommendation, and both as text.

A trial is within the tolerance if the upper bound of the 95% confidence interval of its mean loss
is: over few segments, the mean itself is often below the tolerance although the true loss is above.
The interval is from a studentized bootstrap over segments (Efron & Tibshirani 1993, 12.5): losses
are zero for most segments and large for some, so that the percentile bootstrap is too optimistic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk.evaluation.coverage import CoverageSummary
from minrisk.evaluation.coverage import summarised as covered
from minrisk.evaluation.resampling import RESAMPLES, resampled_counts
from minrisk.evaluation.study import EXACT, Study, Trial, TrialResults
from minrisk.io.store import write_text
from minrisk.io.text import FilePath

_TOLERATED_SHARE = 0.01  # default tolerance, as a share of the gain
_TAIL = RESAMPLES // 40  # resamples beyond each end of the 95% interval
_ROUNDING = 1e-9  # relative deviation up to which the values of a resample count as equal
_MIN_SPEEDUP = 2.0  # smallest speedup for which an approximation is recommended


@dataclass(frozen=True)
class TrialSummary:
    """Means of a trial over all segments, and its median time."""

    trial: Trial
    first: float
    among: float
    lost: float
    lost_low: float  # bounds of the 95% confidence interval of `lost`
    lost_high: float
    pairs: float
    seconds: float  # including feature extraction

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {"strategy": self.trial.strategy, "budget": self.trial.budget} | {
            key: value for key, value in fields.items() if key != "trial"}


@dataclass(frozen=True)
class Validation:
    """The results of every strategy on the segments, and the recommended one.

    `str` returns the table of `minrisk validate`.

    >>> import minrisk
    >>> samples = ["the cat sat", "a cat sat", "the dog sat", "the cat ran", "cats sit"]
    >>> found = minrisk.validate([samples], strategies=["n-by-s"], tolerance=100)
    >>> [row.trial.label for row in found.rows]
    ['standard', 'n-by-s subset n/2', 'n-by-s subset n/4']
    >>> found.rows[0].lost
    0.0
    """

    signature: str
    rows: list[TrialSummary] = field(repr=False)  # each strategy at each budget, standard MBR first
    segments: int
    references: float  # mean number per segment
    gain: float
    tolerance: float  # largest acceptable loss, in units of the utility
    coverage: CoverageSummary | None = None  # for votes with gold answers
    skipped: Sequence[str] = ()  # strategies that were not tried, with reasons
    _study: Study | None = field(default=None, repr=False)

    @property
    def exact(self) -> TrialSummary:
        """Standard MBR."""
        return self.rows[0]

    @property
    def fastest(self) -> TrialSummary:
        """The fastest trial within the tolerance."""
        return min(self._tolerable, key=lambda row: row.seconds)

    @property
    def recommended(self) -> TrialSummary:
        """The fastest trial within the tolerance, unless standard MBR is nearly as fast."""
        is_worth_it = self.exact.seconds > _MIN_SPEEDUP * self.fastest.seconds
        return self.fastest if is_worth_it else self.exact

    @property
    def fewest_pairs(self) -> TrialSummary:
        """The trial within the tolerance that evaluates the fewest pairs."""
        return min(self._tolerable, key=lambda row: (row.pairs, row.lost))

    @property
    def _tolerable(self) -> list[TrialSummary]:
        """The trials within the tolerance; standard MBR always is, even if the gain is negative."""
        return [row for row in self.rows if row is self.exact
                or row.lost_high <= self.tolerance]

    def as_json(self) -> dict[str, Any]:
        """The dictionary that `minrisk validate --format json` prints."""
        return {"signature": self.signature, "segments": self.segments,
                "references": self.references, "gain": self.gain, "tolerance": self.tolerance,
                "recommended": self.recommended.trial.label, "fastest": self.fastest.trial.label,
                "fewest_pairs": self.fewest_pairs.trial.label,
                "trials": [row.as_json() for row in self.rows],
                **({"coverage": asdict(self.coverage)} if self.coverage else {})}

    def save(self, path: FilePath) -> None:
        """Write `as_json()` to a file."""
        write_text(os.fspath(path), json.dumps(self.as_json(), indent=1) + "\n")

    def plot(self, path: FilePath) -> None:
        """Plot accuracy over effective references, as .png, .svg or .pdf (`minrisk[plot]`)."""
        assert self._study is not None
        from minrisk.evaluation.figure import check_figure, plot  # imports this module

        check_figure(os.fspath(path))
        plot(self, self._study, os.fspath(path))

    def __str__(self) -> str:
        assert self._study is not None
        return "\n".join(report_lines(self, self._study.top))


def summarise(trials: Iterable[Trial], segments: Sequence[TrialResults],
              tolerance: float | None = None, study: Study | None = None,
              skipped: Sequence[str] = ()) -> Validation:
    """The means of all trials; `skipped` names strategies that could not be tried."""
    gain = fmean(segment.gain for segment in segments)
    shares = resampled_counts(len(segments)) / len(segments)
    rows = [_summarised(trial, segments, shares) for trial in trials]
    assert rows[0].trial == EXACT
    return Validation(
        "" if study is None else study.signature, rows, len(segments),
        fmean(segment.references for segment in segments), gain,
        _TOLERATED_SHARE * gain if tolerance is None else tolerance,
        covered([one.coverage for one in segments if one.coverage is not None]), skipped, study)


def _summarised(trial: Trial, segments: Sequence[TrialResults], shares: Floats) -> TrialSummary:
    outcomes = [segment.outcomes[trial.label] for segment in segments]
    low, high = _interval(np.array([o.lost for o in outcomes]), shares)
    features = median(segment.features for segment in segments)
    return TrialSummary(trial, fmean(o.first for o in outcomes), fmean(o.among for o in outcomes),
                        fmean(o.lost for o in outcomes), low, high,
                        fmean(o.pairs for o in outcomes),
                        features + median(o.seconds for o in outcomes))


def _interval(values: Floats, shares: Floats) -> tuple[float, float]:
    """The 95% confidence interval of the mean, clipped to the range of the values."""
    least, most = float(values.min()), float(values.max())
    if least == most:
        return least, most
    mean, deviation = values.mean(), values.std()
    apart = values - mean
    moved = shares @ apart
    deviations = np.sqrt(np.maximum(shares @ apart**2 - moved**2, 0))
    # a resample of equal values has deviation 0, so its studentized distance is infinite
    distances = np.divide(moved, deviations, out=np.copysign(np.inf, moved),
                          where=deviations > _ROUNDING * deviation)
    distances.sort()
    low, high = mean - deviation * distances[[-_TAIL, _TAIL - 1]]
    return max(float(low), least), min(float(high), most)


def report_lines(summary: Validation, top: int) -> Iterator[str]:
    """The table with its header, an explanation, and recommendations."""
    rows = [("strategy", "budget", "top-1", f"top-{top}", "lost", "up to", "pairs", "ms"),
            *(_cells(row) for row in summary.rows)]
    yield from aligned(rows, labels=2)
    yield (f"\nMeans over {summary.segments} segments of {summary.references:,.0f} references. "
           f"top-1, top-{top}: how often the string that\nexact MBR picks is the first, "
           f"or among the first {top}. lost: exact utility, against that string; up\n"
           "to: the upper end of its 95% interval over segments, which must be tolerated.\n"
           f"ms: median per segment, features included.\n{summary.signature}\n")
    yield from _recommendations(summary)
    if summary.coverage is not None:
        yield ""
        yield from aligned([("", "right", "95% interval"), *summary.coverage.rows()])


def aligned(rows: Sequence[Sequence[str]], labels: int = 1) -> list[str]:
    """The rows of a table as lines: left-aligned columns of labels, then right-aligned numbers.

    >>> aligned([["system", "score"], ["a", "9.5"]])
    ['system  score', 'a         9.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([*map(str.ljust, cells[:labels], widths),
                       *map(str.rjust, cells[labels:], widths[labels:])]).rstrip()
            for cells in rows]


def _cells(row: TrialSummary) -> tuple[str, ...]:
    return (row.trial.strategy, row.trial.budget, f"{row.first:.1%}", f"{row.among:.1%}",
            f"{row.lost:.3g}", f"{row.lost_high:.3g}", f"{row.pairs:,.0f}",
            f"{1000 * row.seconds:.1f}")


def _recommendations(summary: Validation) -> Iterator[str]:
    yield (f"Exact MBR gains {summary.gain:.3g} over a sample at random; "
           f"a loss of {summary.tolerance:.3g} is tolerated.")
    yield f"By time:  {_by_time(summary)}"
    yield f"By pairs: {_by_pairs(summary)}"


def _by_time(summary: Validation) -> str:
    fastest, exact = summary.fastest, summary.exact
    if fastest is exact:
        return f"standard, which is exact and the fastest anyway: {_ms(exact)} a segment."
    if summary.recommended is exact:
        return (f"standard, which is exact and takes {_ms(exact)} a segment; the fastest,\n"
                f"          {fastest.trial.label} with {_ms(fastest)}, is not twice as fast.")
    return (f"{fastest.trial.label}, {_ms(fastest)} a segment instead of {_ms(exact)}; "
            f"it loses {_lost(fastest)}.")


def _by_pairs(summary: Validation) -> str:
    fewest, exact = summary.fewest_pairs, summary.exact
    if fewest is exact:
        return "standard; nothing with fewer pairs stays within the tolerance."
    return (f"{fewest.trial.label}, {fewest.pairs / exact.pairs:.2%} of standard's; "
            f"it loses {_lost(fewest)}.")


def _lost(row: TrialSummary) -> str:
    return f"{row.lost:.3g} ({row.lost_low:.3g} to {row.lost_high:.3g})"


def _ms(row: TrialSummary) -> str:
    return f"{1000 * row.seconds:.3g} ms"
