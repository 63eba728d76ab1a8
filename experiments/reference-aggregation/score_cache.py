"""A metric that caches the scores of a segment, so that all methods share one matrix.

Standard MBR, N-by-S at every size, the corrections of a control variate and the second stages of
cascades use the same scores. Times are measured in `timing.py`, without this cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk import Groups
from minrisk._core.arrays import Floats
from minrisk._core.groups import WeightedRows
from minrisk._core.metric import AnyMetric, Surrogate


class ScoreCacheMetric:
    """Scores of a segment's pairs from a matrix, those of averages from the metric itself."""

    features_per_segment = True

    def __init__(self, metric: AnyMetric) -> None:
        self.metric = metric
        self.name = metric.name
        self.needs_source = getattr(metric, "needs_source", False)
        self._table = ScoreTable(metric, [])

    def features(self, texts: Sequence[str]) -> WeightedRows:
        """Rows of the last table, if it has all of the texts, or else of a new one."""
        if not self._table.rows.keys() >= set(texts):
            self._table = ScoreTable(self.metric, texts)
        rows = np.array([self._table.rows[text] for text in texts])
        return WeightedRows.plain(self, self._table, rows)

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        if refs.is_plain:
            table: ScoreTable = hyps.base
            return table.matrix(source)[np.ix_(hyps.members, refs.members)]
        labels = np.repeat(np.arange(len(refs)), np.diff(refs.offsets))
        averages = self.metric.aggregate(own(refs), Groups(labels, refs.weights))
        return self.metric.scores(own(hyps), averages, own(source))

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows | None = None) -> RowSurrogate:
        return RowSurrogate(self.metric.surrogate(own(hyps), own(refs), mass, own(source)))


class ScoreTable:
    """The texts of a segment, with their features and all scores between them."""

    def __init__(self, metric: AnyMetric, texts: Sequence[str]) -> None:
        self.rows = {text: row for row, text in enumerate(texts)}
        self.features = metric.features(texts) if texts else None
        self._metric = metric
        self._matrix: Floats | None = None

    def matrix(self, source: WeightedRows | None) -> Floats:
        """(N, N); a table is of one segment, so that there is one source."""
        if self._matrix is None:
            self._matrix = self._metric.scores(self.features, self.features, own(source))
        return self._matrix


@dataclass(frozen=True)
class RowSurrogate:
    """A surrogate that takes our rows."""

    made: Surrogate[Any]

    @property
    def mean(self) -> Floats:
        return self.made.mean

    def at(self, refs: WeightedRows) -> Floats:
        return self.made.at(own(refs))


def own(rows: WeightedRows | None) -> Any:
    """Plain rows, or the members of averages, as the metric itself knows them."""
    return None if rows is None else rows.base.features[rows.members]
