"""The array types that everything exchanges. Sizes in comments: H, R, G, D."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def sums(labels: Ints, values: Floats, count: int) -> Floats:
    """(count,) the values added up by label."""
    totals: Floats = np.bincount(labels, values, minlength=count).astype(np.float64)
    return totals
