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

Objects = npt.NDArray[np.object_]  # features that are Python objects: strings, lists of words, ...


def objects(values: Iterable[Any]) -> Objects:
    """(N,) an array with one element per value, even if the values are lists."""
    return np.fromiter(values, dtype=object)


def agreement_of_cosines(cosines: Floats) -> Floats:
    """1 - sine of the angle, which is linear in a small difference; a cosine is quadratic."""
    cosines = cosines.clip(0, 1)
    result: Floats = 1 - np.sqrt(1 - cosines**2)
    return result


class SourceMetric(Metric[WeightedRows]):
    """A metric whose scores depend on the source, always or with certain options."""

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, after checks that it is given and that this metric made all features."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        check_rows(self, source, *others)
        return source
