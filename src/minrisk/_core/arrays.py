"""Array types. Sizes in comments: H hypotheses, R references, G groups, D dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Points = Any  # (N, D) a NumPy array, or a torch tensor on any device


def sums(labels: Ints, values: Floats, count: int) -> Floats:
    """(count,) the sum of the values with each label."""
    totals: Floats = np.bincount(labels, values, minlength=count).astype(np.float64)
    return totals


def distinct_labels(labels: Ints, count: int) -> tuple[Ints, Ints]:
    """The distinct labels below `count`, sorted, and the position of each label among them.

    The same as `np.unique(labels, return_inverse=True)`, in linear time.
    """
    is_there = np.zeros(count, np.bool_)
    is_there[labels] = True
    return is_there.nonzero()[0], (is_there.cumsum() - 1)[labels]


def finite_or_none(number: float | None) -> float | None:
    """The number; None for NaN and infinities, which JSON cannot express."""
    return number if number is not None and math.isfinite(number) else None


def finite_numbers(value: Any) -> Any:
    """A JSON value with None in place of NaN and infinities."""
    if isinstance(value, dict):
        return {key: finite_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite_numbers(item) for item in value]
    return finite_or_none(value) if isinstance(value, float) else value


def finite_rows(points: Points) -> npt.NDArray[np.bool_]:
    """(N,) whether each row of an array or a tensor is finite."""
    with np.errstate(invalid="ignore"):
        zero = (points * 0).sum(1)  # NaN wherever a row has a NaN or an infinity
    found: npt.NDArray[np.bool_] = np.array(zero.tolist()) == 0
    return found
