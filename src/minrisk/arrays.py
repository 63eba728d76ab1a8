"""The array types that everything exchanges. Sizes in comments: H, R, G, D."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Points = Any  # (N, D) a NumPy array, or a torch tensor wherever it was made


def sums(labels: Ints, values: Floats, count: int) -> Floats:
    """(count,) the values added up by label."""
    totals: Floats = np.bincount(labels, values, minlength=count).astype(np.float64)
    return totals
