"""All segments: the means of every trial, and which to use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from minrisk.validation.budgets import Trial
from minrisk.validation.study import EXACT, Judgement

_TOLERATED = 0.01  # of the gain, unless the user says
_WORTH = 2.0  # how much faster an approximation must be to be worth its errors


@dataclass(frozen=True)
class Row:
    """A trial's means over all segments, and its median time."""

    trial: Trial
    first: float
    among: float
    lost: float
    pairs: float
    seconds: float  # features included

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {"strategy": self.trial.strategy, "budget": self.trial.budget} | {
            key: value for key, value in fields.items() if key != "trial"}


@dataclass(frozen=True)
class Summary:
    rows: list[Row]  # standard MBR first
    segments: int
    references: float  # in the mean
    gain: float
    tolerance: float  # in utility

    @property
    def exact(self) -> Row:
        return self.rows[0]

    @property
    def fastest(self) -> Row:
        return min(self._tolerable, key=lambda row: row.seconds)

    @property
    def recommended(self) -> Row:
        """The fastest, unless the exact one is nearly as fast."""
        is_worth_it = self.exact.seconds > _WORTH * self.fastest.seconds
        return self.fastest if is_worth_it else self.exact

    @property
    def fewest_pairs(self) -> Row:
        return min(self._tolerable, key=lambda row: (row.pairs, row.lost))

    @property
    def _tolerable(self) -> list[Row]:
        return [row for row in self.rows if row.lost <= self.tolerance]

    def as_json(self) -> dict[str, Any]:
        return {"segments": self.segments, "references": self.references, "gain": self.gain,
                "tolerance": self.tolerance, "recommended": self.recommended.trial.label,
                "fastest": self.fastest.trial.label,
                "fewest_pairs": self.fewest_pairs.trial.label,
                "trials": [row.as_json() for row in self.rows]}


def summarise(trials: Iterable[Trial], judgements: Sequence[Judgement],
              tolerance: float | None = None) -> Summary:
    gain = fmean(j.gain for j in judgements)
    rows = [_row(trial, judgements) for trial in trials]
    assert rows[0].trial == EXACT
    return Summary(rows, len(judgements), fmean(j.references for j in judgements), gain,
                   _TOLERATED * gain if tolerance is None else tolerance)


def _row(trial: Trial, judgements: Sequence[Judgement]) -> Row:
    found = [judgement.outcomes[trial.label] for judgement in judgements]
    features = median(judgement.features for judgement in judgements)
    return Row(trial, fmean(o.first for o in found), fmean(o.among for o in found),
               fmean(o.lost for o in found), fmean(o.pairs for o in found),
               features + median(o.seconds for o in found))
