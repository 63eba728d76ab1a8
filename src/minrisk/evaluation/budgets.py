"""The budgets of each strategy that `minrisk validate` tries, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from minrisk._core.segment import Segment

Whole = Literal["references", "hypotheses", "pairs"]


@dataclass(frozen=True)
class Budget:
    """An option of a strategy and the values to try.

    Values are shares of a whole (the number of references, hypotheses or pairs) at which the
    strategy equals standard MBR; without a whole they are values of the option. An option that is a
    budget of pairs takes the share itself.
    """

    strategy: str
    option: str
    of: Whole | None
    values: tuple[float, ...]


_HALVES = tuple(2.0**-i for i in range(1, 21))  # as in the paper; too small ones are left out

BUDGETS = (
    Budget("n-by-s", "subset", "references", _HALVES),
    Budget("aggregate", "groups", "references", _HALVES),
    Budget("aggregate-to-fine", "keep", "hypotheses", _HALVES),
    Budget("coarse-to-fine", "keep", "hypotheses", _HALVES),
    Budget("prune", "alpha", None, (0.8, 0.9, 0.99)),
    Budget("adaptive", "budget", "pairs", _HALVES),
    Budget("centroid", "centroids", "references", _HALVES),
    Budget("low-rank", "budget", "pairs", _HALVES),
    Budget("control-variate", "budget", "pairs", _HALVES),
    Budget("quality-then-mbr", "keep", "hypotheses", _HALVES),
)

# choose sets, or maximise something else: they do not approximate standard MBR
OTHER_AIMS = frozenset({"cluster", "diverse", "mbr-bon", "medoids"})
# made of other strategies, of which two are tried under names of their own
COMPOSED = frozenset({"cascade"})


@dataclass(frozen=True)
class Trial:
    """A strategy with one budget, or with its default options."""

    strategy: str
    option: str | None = None
    value: float | None = None
    of: Whole | None = None

    @property
    def budget(self) -> str:
        """The budget as text, such as `keep n/8`."""
        if self.option is None or self.value is None:
            return ""
        if self.of is None:
            return f"{self.option} {self.value:g}"
        whole = "n²" if self.of == "pairs" else "n"
        return f"{self.option} {whole}/{1 / self.value:g}"

    @property
    def label(self) -> str:
        return f"{self.strategy} {self.budget}".rstrip()

    def options(self, segment: Segment) -> dict[str, float]:
        if self.option is None or self.value is None:
            return {}
        if self.of is None or self.of == "pairs":
            return {self.option: self.value}
        return {self.option: max(1, round(self.value * _size(segment, self.of)))}


def trials(strategies: list[str], segments: Sequence[Segment]) -> list[Trial]:
    """The trials for segments of this size; a strategy that is not in the table has one trial."""
    return [trial for name in strategies for trial in _trials(name, segments)]


def _trials(strategy: str, segments: Sequence[Segment]) -> list[Trial]:
    return [
        Trial(strategy, budget.option, value, budget.of)
        for budget in BUDGETS if budget.strategy == strategy
        for value in budget.values
        if budget.of is None or value * _typical_size(segments, budget.of) >= 1
    ] or [Trial(strategy)]


def _typical_size(segments: Sequence[Segment], of: Whole) -> float:
    """The median size of the segments."""
    return median(_size(segment, of) for segment in segments)


def _size(segment: Segment, of: Whole) -> int:
    """The size of the whole; for pairs the number of references, as each hypothesis needs one."""
    return len(segment.hypotheses if of == "hypotheses" else segment.references)
