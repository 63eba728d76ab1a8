"""The compared methods: curves over the number of effective references, and those of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from score_cache import ScoreCacheMetric
from settings import Settings, Utility

from minrisk import (
    Aggregate,
    AggregateToFine,
    Cascade,
    CoarseToFine,
    ControlVariate,
    NByS,
    Standard,
)
from minrisk._core.adapters import as_metric
from minrisk._core.metric import Ability
from minrisk._core.strategy import Strategy

AGGREGATION, N_BY_S, EXPECTED, CONTROL, COARSE = (
    "reference aggregation", "N-by-S", "expected features", "control variate", "coarse metric")
STANDARD, TO_FINE = "standard MBR", "aggregate-to-fine MBR"
COARSE_STANDARD, COARSE_AGGREGATE = "standard {} to {}", "aggregate {} to {}"


@dataclass(frozen=True)
class Point:
    """A method at one number of effective references."""

    curve: str
    effective: int
    strategy: Strategy

    @property
    def label(self) -> str:
        return f"{self.curve} {self.effective}"


def halves(count: int) -> list[int]:
    """n, n/2, n/4 and so on to 1."""
    return [count >> i for i in range(count.bit_length())]


class Methods:
    """All that a utility allows, on one matrix of pairs."""

    def __init__(self, utility: Utility, settings: Settings) -> None:
        self.utility = utility
        self.metric = ScoreCacheMetric(utility.metric)
        abilities = as_metric(utility.metric).abilities
        self.averages = Ability.AVERAGES in abilities
        self.corrects = Ability.SURROGATE in abilities
        self._settings = settings

    @property
    def exact(self) -> Standard:
        return Standard(self.metric)

    def points(self, count: int) -> Iterator[Point]:
        """Every curve down to one; at n only the coarse metric is not standard MBR itself."""
        for size in self._settings.effective or halves(count):
            for curve, strategy in self._curves(size, count):
                if size <= self.utility.curves.get(curve, count if curve == COARSE else count - 1):
                    yield Point(curve, size, strategy)

    def _curves(self, size: int, count: int) -> Iterator[tuple[str, Strategy]]:
        utility, seed = self.utility, self._settings.seed
        yield N_BY_S, NByS(self.metric, size, seed=seed)
        if self.averages:
            yield AGGREGATION, Aggregate(self.metric, size, seed=seed)
        if utility.expected:
            yield EXPECTED, Aggregate(utility.expected, size, seed=seed)
        if self.corrects:
            yield CONTROL, ControlVariate(self.metric, size / count, seed=seed)
        if utility.coarse:
            yield COARSE, Aggregate(utility.coarse, size, seed=seed)

    def choices(self, count: int) -> Iterator[tuple[str, Strategy]]:
        """The rows of the tables."""
        utility, keep = self.utility, min(self._settings.keep, count)
        yield STANDARD, self.exact
        if self.averages:
            yield AGGREGATION, Aggregate(self.metric)
            yield TO_FINE, AggregateToFine(self.metric, keep)
        if utility.expected:
            yield EXPECTED, Aggregate(utility.expected)
        if self.corrects:
            yield CONTROL, ControlVariate(self.metric, min(1, self._settings.corrected / count),
                                          seed=self._settings.seed)
        if utility.coarse:
            names = utility.coarse.name, utility.name
            yield (COARSE_STANDARD.format(*names),
                   CoarseToFine(self.metric, utility.coarse, keep))
            yield (COARSE_AGGREGATE.format(*names),
                   Cascade(Aggregate(utility.coarse), self.exact, keep))
