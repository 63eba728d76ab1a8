"""Several metrics as one: a weighted sum of their scores, or of the ranks that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Literal

import numpy as np

from minrisk._core.adapters import inner
from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups
from minrisk._core.metric import Ability, AnyMetric, Metric, PartialStatistics
from minrisk._core.options import option
from minrisk.metrics._objects import objects

_DIGITS = 9  # scores that agree to so many are equal: rounding must not make a rank


@dataclass(frozen=True, eq=False)
class _Parts:
    """The features of each metric, row by row."""

    features: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.features[0])

    def __getitem__(self, rows: Ints, /) -> _Parts:
        return _Parts(tuple(part[rows] for part in self.features))


@dataclass(frozen=True)
class Combined(Metric[_Parts]):
    """a weighted sum of metrics: --metric chrf*0.5+comet; averages references if all of them do"""

    metrics: tuple[AnyMetric, ...] = inner(help="some, as in chrf*0.5+comet", several=True)
    weights: tuple[float, ...] = option((), help="one each; 1 unless given")
    by: Literal["score", "rank"] = option(
        "score", help="add scores, or the share of hypotheses that each hypothesis is better than")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.metrics, tuple) or not self.metrics:
            raise InputError("combined: metrics must be a tuple of at least one metric, "
                             "as in chrf+comet")
        weights = self.weights or (1.0,) * len(self.metrics)
        if len(weights) != len(self.metrics):
            raise InputError(f"combined: expected {len(self.metrics)} weights (one per metric); "
                             f"got {len(weights)}")
        object.__setattr__(self, "weights", weights)

    @property
    def name(self) -> str:
        pairs = zip(self.metrics, self.weights, strict=True)
        return "+".join(m.name if w == 1 else f"{m.name}*{w:g}" for m, w in pairs)

    @property
    def abilities(self) -> Ability:
        """It averages references, also in parts, where each of the metrics does."""
        shared = reduce(and_, (metric.abilities for metric in self.metrics))
        return shared & (Ability.AVERAGES | Ability.PARTIAL_STATISTICS)

    @property
    def needs_source(self) -> bool:
        return any(metric.needs_source for metric in self.metrics)

    @property
    def loads_model(self) -> bool:
        return any(metric.loads_model for metric in self.metrics)

    @property
    def features_per_segment(self) -> bool:
        """Only if all like it: a model among them reads the texts of a batch together."""
        return all(metric.features_per_segment for metric in self.metrics)

    def prepare(self) -> None:
        for metric in self.metrics:
            metric.prepare()

    def features(self, texts: Sequence[str]) -> _Parts:
        return _Parts(tuple(metric.features(texts) for metric in self.metrics))

    def scores(self, hyps: _Parts, refs: _Parts, source: _Parts | None = None) -> Floats:
        """(H, R) the weighted sum for every pair."""
        total = np.zeros((len(hyps), len(refs)))
        for metric, weight, *features in self._each(hyps, refs, source):
            total += weight * self._counted(metric.scores(*features))
        return total

    def utility(self, hyps: _Parts, refs: _Parts, mass: Floats,
                source: _Parts | None = None) -> Floats:
        """(H,) `scores @ mass`, as each metric computes it fastest."""
        if self.by == "rank":
            return self.scores(hyps, refs, source) @ mass
        total = np.zeros(len(hyps))
        for metric, weight, ours, theirs, src in self._each(hyps, refs, source):
            total += weight * metric.utility(ours, theirs, mass, src)
        return total

    def aggregate(self, refs: _Parts, groups: Groups) -> _Parts:
        parts = zip(self.metrics, refs.features, strict=True)
        return _Parts(tuple(metric.aggregate(part, groups) for metric, part in parts))

    def partial_statistics(self, hyps: _Parts, refs: _Parts, weights: Floats) -> PartialStatistics:
        """That of each metric."""
        return objects(metric.partial_statistics(ours, theirs, weights)
                       for metric, _, ours, theirs, _ in self._each(hyps, refs, None))

    def finalize(self, hyps: _Parts, statistics: PartialStatistics,
                 source: _Parts | None = None) -> Floats:
        total = np.zeros((len(hyps), 1))
        for metric, weight, ours, found, src in self._each(hyps, _Parts(tuple(statistics)), source):
            total += weight * self._counted(metric.finalize(ours, found, src)[:, None])
        return total[:, 0]

    def _counted(self, scores: Floats) -> Floats:
        return _shares(scores) if self.by == "rank" else scores

    def _each(self, hyps: _Parts, refs: _Parts, source: _Parts | None) -> Any:
        sources = source.features if source is not None else (None,) * len(self.metrics)
        return zip(self.metrics, self.weights, hyps.features, refs.features, sources, strict=True)


def _shares(scores: Floats) -> Floats:
    """(H, R) the share of hypotheses that score lower against the same reference; ties half."""
    result = np.empty_like(scores)
    rounded = np.round(scores, _DIGITS)
    for column in range(scores.shape[1]):
        values = rounded[:, column]
        ordered = np.sort(values)
        below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
        result[:, column] = below / (2 * values.size)
    return result
