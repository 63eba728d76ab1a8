"""The trials of `minrisk validate`: strategies with each of their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk._core.strategy import Budget, Whole


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
    """The trials for segments of this size; a strategy without a budget has one trial."""
    return [trial for name in strategies for trial in _trials(name, segments)]


def _trials(strategy: str, segments: Sequence[Segment]) -> list[Trial]:
    budget: Budget | None = getattr(STRATEGIES.get(strategy), "tried", None)
    if budget is None:
        return [Trial(strategy)]
    return [Trial(strategy, budget.option, value, budget.of) for value in budget.values
            if budget.of is None or value * _typical_size(segments, budget.of) >= 1
            ] or [Trial(strategy)]


def _typical_size(segments: Sequence[Segment], of: Whole) -> float:
    """The median size of the segments."""
    return median(_size(segment, of) for segment in segments)


def _size(segment: Segment, of: Whole) -> int:
    """The size of the whole; for pairs the number of references, as each hypothesis needs one."""
    return len(segment.hypotheses if of == "hypotheses" else segment.references)
