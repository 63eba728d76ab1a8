"""Base classes and feature types that several metrics share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.groups import WeightedRows, check_rows
from minrisk._core.metric import Metric

Objects = npt.NDArray[np.object_]  # features that are Python objects: texts, lists of words, ...


def objects(values: Iterable[Any]) -> Objects:
    """(N,) an array with one element per value, also where the values are lists."""
    return np.fromiter(values, dtype=object)


def agreement_of_cosines(cosines: Floats) -> Floats:
    """1 - sine of the angle: a cosine itself falls with the square of the difference only."""
    cosines = cosines.clip(0, 1)
    result: Floats = 1 - np.sqrt(1 - cosines**2)
    return result


class SourceMetric(Metric[WeightedRows]):
    """A metric whose scores depend on the source, always or by its options."""

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, which must be given; all features must have been made by this metric."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        check_rows(self, source, *others)
        return source
