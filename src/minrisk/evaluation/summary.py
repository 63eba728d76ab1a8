"""Summary over all segments: the means of every trial, and a recommendation.

A trial is within the tolerance if the upper end of the 95% interval of its loss is, by a bootstrap
over segments: a mean over few segments is often below the tolerance where the loss is above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk.evaluation.budgets import Trial
from minrisk.evaluation.study import EXACT, TrialResults

_TOLERATED_SHARE = 0.01  # of the gain, unless a tolerance is given
_RESAMPLES = 1000
_ENDS = (0.025, 0.975)  # of the interval
_MIN_SPEEDUP = 2.0  # how much faster an approximation must be to be worth its errors


@dataclass(frozen=True)
class TrialSummary:
    """The means of a trial over all segments, and its median time."""

    trial: Trial
    first: float
    among: float
    lost: float
    lost_low: float  # the 95% interval of `lost`
    lost_high: float
    pairs: float
    seconds: float  # features included

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {"strategy": self.trial.strategy, "budget": self.trial.budget} | {
            key: value for key, value in fields.items() if key != "trial"}


@dataclass(frozen=True)
class Summary:
    """The summaries of all trials, and the tolerance for the recommendation."""

    rows: list[TrialSummary]  # standard MBR first
    segments: int
    references: float  # in the mean
    gain: float
    tolerance: float  # in utility

    @property
    def exact(self) -> TrialSummary:
        return self.rows[0]

    @property
    def fastest(self) -> TrialSummary:
        return min(self._tolerable, key=lambda row: row.seconds)

    @property
    def recommended(self) -> TrialSummary:
        """The fastest trial within the tolerance, unless standard MBR is nearly as fast."""
        is_worth_it = self.exact.seconds > _MIN_SPEEDUP * self.fastest.seconds
        return self.fastest if is_worth_it else self.exact

    @property
    def fewest_pairs(self) -> TrialSummary:
        return min(self._tolerable, key=lambda row: (row.pairs, row.lost))

    @property
    def _tolerable(self) -> list[TrialSummary]:
        """The trials within the tolerance; standard MBR always is, also if the gain is negative."""
        return [row for row in self.rows if row is self.exact
                or row.lost_high <= self.tolerance]

    def as_json(self) -> dict[str, Any]:
        return {"segments": self.segments, "references": self.references, "gain": self.gain,
                "tolerance": self.tolerance, "recommended": self.recommended.trial.label,
                "fastest": self.fastest.trial.label,
                "fewest_pairs": self.fewest_pairs.trial.label,
                "trials": [row.as_json() for row in self.rows]}


def summarise(trials: Iterable[Trial], segments: Sequence[TrialResults],
              tolerance: float | None = None) -> Summary:
    gain = fmean(segment.gain for segment in segments)
    shares = _resamples(len(segments))
    rows = [_summarised(trial, segments, shares) for trial in trials]
    assert rows[0].trial == EXACT
    references = fmean(segment.references for segment in segments)
    return Summary(rows, len(segments), references, gain,
                   _TOLERATED_SHARE * gain if tolerance is None else tolerance)


def _resamples(count: int) -> Floats:
    """(resamples, segments) the share of each segment in each bootstrap sample; always the same."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    shares: Floats = counts / count
    return shares


def _summarised(trial: Trial, segments: Sequence[TrialResults], shares: Floats) -> TrialSummary:
    found = [segment.outcomes[trial.label] for segment in segments]
    low, high = np.quantile(shares @ [o.lost for o in found], _ENDS)
    features = median(segment.features for segment in segments)
    return TrialSummary(trial, fmean(o.first for o in found), fmean(o.among for o in found),
                        fmean(o.lost for o in found), float(low), float(high),
                        fmean(o.pairs for o in found),
                        features + median(o.seconds for o in found))
