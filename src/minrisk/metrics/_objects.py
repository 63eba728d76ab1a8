"""Features of metrics that read texts, words or answers one by one: rows of Python objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Objects = npt.NDArray[np.object_]


def objects(values: Iterable[Any]) -> Objects:
    """One row per value, also where the values are lists."""
    return np.fromiter(values, dtype=object)
