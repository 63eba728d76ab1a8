"""Segments bound to a metric: features are extracted once, strategies only choose groups or rows.

The one identity behind every strategy is in `Pool.utility`:

    U(h) = sum over groups g of  mass(g) * score(h, aggregate(g))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, overload

import numpy as np

from minrisk.arrays import Floats, Ints, sums
from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.metric import Aggregates, AnyMetric, F, Metric, utility
from minrisk.segment import Segment

_BLOCK = 64  # rows scored at a time where only the diagonal is wanted


@dataclass(frozen=True, eq=False)
class Pool(Generic[F]):
    """One segment as a metric sees it. Equal texts share a row and are scored once."""

    segment: Segment
    metric: Metric[F]
    texts: F  # distinct texts
    hyp_rows: Ints  # (H,) row of each hypothesis in `texts`
    ref_rows: Ints  # (R,) row of each reference
    source: F | None

    def keep(self, rows: Ints) -> Pool[F]:
        """The same problem with only these hypotheses; their features are shared."""
        return replace(self, segment=self.segment.keep(rows), hyp_rows=self.hyp_rows[rows])

    def utility(self, groups: Groups | None = None, leave_self_out: bool = False) -> Floats:
        """(H,) expected score over the groups; each reference is its own group by default."""
        groups = Groups.singletons(self.segment.weights) if groups is None else groups
        if not groups.are_singletons:
            if leave_self_out:
                raise InputError("an aggregate cannot leave one reference out; "
                                 "leave_self_out needs a strategy that scores pairs")
            return self._utility_of_aggregates(groups.only_kept(), self.ref_rows[groups.kept])
        mass = np.zeros(len(self.ref_rows))
        mass[groups.kept] = groups.mass[groups.labels[groups.kept]]
        return self._utility_without_self(mass) if leave_self_out else self._utility(mass)

    def scores(self) -> Floats:
        """(H, R) the whole matrix, for those who ask for it."""
        distinct, hyp_of = np.unique(self.hyp_rows, return_inverse=True)
        others, ref_of = np.unique(self.ref_rows, return_inverse=True)
        matrix = self.metric.scores(self.texts[distinct], self.texts[others], self.source)
        return matrix[np.ix_(hyp_of, ref_of)]

    def _utility(self, mass: Floats) -> Floats:
        """(H,) from the mass of each reference: duplicates are scored once, weighted k times."""
        per_row = sums(self.ref_rows, mass, len(self.texts))
        used = np.flatnonzero(per_row)
        distinct, place = np.unique(self.hyp_rows, return_inverse=True)
        hyps = self.texts[distinct]
        refs = hyps if np.array_equal(distinct, used) else self.texts[used]
        return utility(self.metric, hyps, refs, per_row[used], self.source)[place]

    def _utility_of_aggregates(self, groups: Groups, rows: Ints) -> Floats:
        if not isinstance(self.metric, Aggregates):
            raise InputError(f"metric {self.metric.name!r} cannot average references; "
                             "use the standard strategy, or it as the fine stage of a cascade")
        refs = self.metric.aggregate(self.texts[rows], groups)
        distinct, place = np.unique(self.hyp_rows, return_inverse=True)
        return utility(self.metric, self.texts[distinct], refs, groups.mass, self.source)[place]

    def _utility_without_self(self, mass: Floats) -> Floats:
        """Each hypothesis over the references but the one that is itself (by position)."""
        if self.segment.own is None:
            return self._utility(mass)  # separate references: there is no self among them
        own = mass[self.segment.own]  # (H,)
        rest = self._utility(mass) - own * self._self_scores()
        # a hypothesis that was its own only reference has nothing left to be judged by
        return np.divide(rest, 1 - own, out=np.zeros_like(rest), where=own < 1)

    def _self_scores(self) -> Floats:
        """(H,) the score of each hypothesis against itself."""
        distinct, place = np.unique(self.hyp_rows, return_inverse=True)
        blocks = np.split(distinct, range(_BLOCK, distinct.size, _BLOCK))
        return np.concatenate([
            np.diagonal(self.metric.scores(self.texts[b], self.texts[b], self.source))
            for b in blocks
        ])[place]


class Batch(Sequence[Segment]):
    """Segments that remember their pools, so that a later stage finds the features again."""

    def __init__(self, segments: Iterable[Segment], parent: Batch | None = None,
                 rows: Sequence[Ints] = ()) -> None:
        self._segments = list(segments)
        self._parent = parent
        self._rows = rows
        self._pools: dict[AnyMetric, list[Pool[Any]]] = {}

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | Sequence[Segment]:
        return self._segments[index]

    def keep(self, rows: Sequence[Ints]) -> Batch:
        """The same problems with only these hypotheses of each."""
        kept = [s.keep(r) for s, r in zip(self._segments, rows, strict=True)]
        return Batch(kept, parent=self, rows=rows)

    def pools(self, metric: Metric[F]) -> list[Pool[F]]:
        if metric not in self._pools:
            if self._parent is not None and metric in self._parent._pools:
                parents = self._parent._pools[metric]
                found = [p.keep(r) for p, r in zip(parents, self._rows, strict=True)]
            else:
                found = list(_extract(metric, self._segments))
            self._pools[metric] = found
        return self._pools[metric]


def bind(metric: Metric[F], segments: Sequence[Segment]) -> Iterable[Pool[F]]:
    """A pool per segment. Plain segments are bound one after the other and forgotten."""
    return segments.pools(metric) if isinstance(segments, Batch) else _extract(metric, segments)


def _extract(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    if getattr(metric, "features_per_segment", False):
        for segment in segments:
            yield from _extract_together(metric, [segment])
    else:
        yield from _extract_together(metric, segments)


def _extract_together(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    """One call of `features` for every distinct text of these segments."""
    rows: dict[str, int] = {}

    def rows_of(texts: Iterable[str]) -> Ints:
        return np.array([rows.setdefault(t, len(rows)) for t in texts], dtype=np.intp)

    placed = []
    for segment in segments:
        hyps = rows_of(segment.hypotheses)
        same = segment.references is segment.hypotheses
        refs = hyps if same else rows_of(segment.references)
        placed.append((segment, hyps, refs, rows_of(_source(metric, segment))))
    features = metric.features(list(rows))
    for segment, hyps, refs, source in placed:
        yield Pool(segment, metric, features, hyps, refs,
                   features[source] if source.size else None)


def _source(metric: AnyMetric, segment: Segment) -> tuple[str, ...]:
    if not getattr(metric, "needs_source", False):
        return ()
    if segment.source is None:
        raise InputError(f"metric {metric.name!r} needs the source; give one for every segment")
    return (segment.source,)
