"""Scores that were computed before: `minrisk.decode(samples, matrix=scores)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.metric import Metric
from minrisk._core.segment import Segment
from minrisk.metrics._base import Objects, objects


@dataclass(frozen=True, eq=False)
class GivenScores(Metric[Objects]):
    """a matrix of scores, with a row for each hypothesis and a column for each reference"""

    name: ClassVar[str] = "matrix"
    features_per_segment: ClassVar[bool] = True

    matrix: Floats = field(metadata={"affects_results": False})
    rows: dict[str, int] = field(default_factory=dict, metadata={"affects_results": False})
    columns: dict[str, int] = field(default_factory=dict, metadata={"affects_results": False})

    @classmethod
    def of(cls, matrix: Any, segment: Segment) -> GivenScores:
        """The scores of this segment; of equal texts, the first row or column counts."""
        try:
            found = np.asarray(matrix, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"matrix must be an array of scores; {error}") from None
        sides = [segment.hypotheses], [segment.references]
        if segment.self_columns is not None:  # a sample with a count may have one column
            sides[1].append(segment.hypotheses)
        places = [_places(found.shape[axis] if found.ndim == 2 else 0, lists)
                  for axis, lists in enumerate(sides)]
        if places[0] is None or places[1] is None:
            raise InputError(f"matrix has the shape {found.shape}; wanted "
                             f"({len(segment.hypotheses)}, {len(segment.references)}), a row for "
                             "each hypothesis and a column for each reference, or for each "
                             "distinct one")
        return cls(found, places[0], places[1])

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R)"""
        try:
            found: Floats = self.matrix[np.ix_([self.rows[text] for text in hyps],
                                               [self.columns[text] for text in refs])]
        except KeyError as error:
            raise InputError(f"matrix has no scores of {error}; choose a strategy that scores "
                             "hypotheses against references only, or give a metric") from None
        return found


def _places(size: int, lists: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """The number of each text in a list of this size, or among its distinct texts."""
    for texts in lists:
        for candidates in (list(texts), list(dict.fromkeys(texts))):
            if len(candidates) == size:
                return {text: place for place, text in reversed(list(enumerate(candidates)))}
    return None
