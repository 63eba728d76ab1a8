"""Bootstrap samples of segments, and intervals of statistics from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints

RESAMPLES = 1000
_ENDS = (0.025, 0.975)  # quantiles of the 95% intervals
_BLOCK = 1 << 22  # elements of (resamples, choices) arrays processed at once
Verdicts = npt.NDArray[np.bool_]  # whether each choice is right


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95% interval.

    >>> str(Estimate(0.925, 0.87, 0.97))
    '0.925 (0.87 to 0.97)'
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.2f} to {self.high:.2f})"


def resampled_counts(count: int, resamples: int = RESAMPLES) -> Ints:
    """(resamples, count) how often each item is in each bootstrap sample; the seed is fixed."""
    rng = np.random.default_rng(0)
    counts: Ints = rng.multinomial(count, np.full(count, 1 / count), resamples)
    return counts


def estimate(statistic: Callable[[Floats, Verdicts, Floats], Floats], values: Floats,
             right: Verdicts, counts: Ints) -> Estimate:
    """The statistic with its bootstrap interval, over resamples for which it is defined."""
    [value] = statistic(values, right, np.ones((1, right.size)))
    rows = max(1, _BLOCK // right.size)
    drawn = np.concatenate([statistic(values, right, counts[start:start + rows].astype(np.float64))
                            for start in range(0, len(counts), rows)])
    low, high = np.nanquantile(drawn, _ENDS)
    return Estimate(float(value), float(low), float(high))
