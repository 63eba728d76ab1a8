"""Segments bound to a metric: features are extracted once, strategies only choose groups or rows.

The one identity behind every strategy is in `Pool.utility`:

    U(h) = sum over groups g of  mass(g) * score(h, aggregate(g))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, overload

import numpy as np

from minrisk._core.adapters import as_metric
from minrisk._core.arrays import Floats, Ints, Points, finite_rows, sums
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric, F, Metric, PartialStatistics, Surrogate
from minrisk._core.segment import Ranking, Segment, shortened

_BLOCK = 1 << 22  # scores held at a time where rows are needed one by one


class Tally:
    """Counts the pairs that were evaluated."""

    pairs = 0

    def add(self, hyps: Ints, refs: int) -> None:
        self.pairs += hyps.size * refs


class ScoreMatrix:
    """All scores of a segment, where somebody asked for them: then none is computed again."""

    def __init__(self) -> None:
        self._matrix: Floats | None = None  # (H, R) of distinct texts
        self._hyps = self._refs = np.empty(0, np.intp)  # the rows of these texts

    def fill(self, hyps: Ints, refs: Ints, matrix: Floats) -> None:
        self._hyps, self._refs, self._matrix = hyps, refs, matrix

    def at(self, hyps: Ints, refs: Ints) -> Floats | None:
        """The scores of these rows of the texts; None if nobody asked for all of them."""
        if self._matrix is None:
            return None
        return self._matrix[np.ix_(np.searchsorted(self._hyps, hyps),
                                   np.searchsorted(self._refs, refs))]


@dataclass(frozen=True, eq=False)
class Pool(Generic[F]):
    """One segment as a metric sees it. Equal texts share a row and are scored once.

    >>> import minrisk
    >>> (pool,) = minrisk.bind(minrisk.ChrF(), [minrisk.Segment(["a", "b", "a"])])
    >>> pool.utility().round(1).tolist(), pool.tally.pairs
    ([66.7, 33.3, 66.7], 4)
    """

    segment: Segment
    metric: Metric[F]
    texts: F  # distinct texts
    hyp_rows: Ints  # (H,) row of each hypothesis in `texts`
    ref_rows: Ints  # (R,) row of each reference
    source: F | None
    tally: Tally = field(default_factory=Tally)
    matrix: ScoreMatrix = field(default_factory=ScoreMatrix)

    def ranking(self, utility: Floats) -> Ranking:
        """Best first, with the pairs that were evaluated for it."""
        return Ranking.of(utility, self.tally.pairs)

    def keep(self, rows: Ints) -> Pool[F]:
        """The same problem with only these hypotheses; features and tally are shared."""
        return replace(self, segment=self.segment.keep(rows), hyp_rows=self.hyp_rows[rows])

    def once(self) -> tuple[Pool[F], Ints]:
        """The same problem with equal hypotheses only once, and the place of each among them."""
        _, first, row = np.unique(self.hyp_rows, return_index=True, return_inverse=True)
        # in order of the samples, which decides between hypotheses of equal utility
        kept, place = np.unique(first[row], return_inverse=True)
        return self.keep(kept), place

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
        if leave_self_out and self.segment.own is not None:
            return self._utility_without_self(mass, self.segment.own)
        return self._utility(mass)  # separate references: there is no self among them

    def choices(self) -> Ints:
        """(H,) a number for each hypothesis: equal texts, or answers, are the same choice.

        It is negative where the metric finds no answer in the text.
        """
        distinct, place = self._distinct
        answers = self.metric.answers(self.texts[distinct])
        if answers is None:
            return self.hyp_rows
        numbers: dict[str | None, int] = {None: -1}
        found = [numbers.setdefault(answer, len(numbers)) for answer in answers]
        return np.array(found, np.intp)[place]

    def references_once(self) -> tuple[Ints, Floats]:
        """A column for each distinct reference that has weight, and what it weighs in all."""
        _, first, row = np.unique(self.ref_rows, return_index=True, return_inverse=True)
        mass = sums(row, self.segment.weights, first.size)
        return first[mass > 0], mass[mass > 0]

    def scores(self, columns: Ints | None = None) -> Floats:
        """(H, columns) against these references, or (H, R) against all."""
        rows = self.ref_rows if columns is None else self.ref_rows[columns]
        distinct, place = self._distinct
        others, ref_place = np.unique(rows, return_inverse=True)
        self.tally.add(distinct, others.size)
        matrix = self.matrix.at(distinct, others)
        if matrix is None:
            refs = self.texts[others]
            found = self.metric.scores(self.texts[distinct], refs, self.source)
            matrix = self._finite(found, refs, lambda column: self._reference(others[column]))
        return matrix[np.ix_(place, ref_place)]

    def keep_scores(self) -> Floats:
        """(H, R) all scores, which nobody who has this pool then computes again."""
        found = self.scores()
        hyps, first_hyp = np.unique(self.hyp_rows, return_index=True)
        refs, first_ref = np.unique(self.ref_rows, return_index=True)
        self.matrix.fill(hyps, refs, found[np.ix_(first_hyp, first_ref)])
        return found

    def summed_scores(self, refs: F, weights: Floats) -> Floats:
        """(H,) against further references, which add up with those against others."""
        distinct, place = self._distinct
        self.tally.add(distinct, len(refs))
        found = self.metric.utility(self.texts[distinct], refs, weights, self.source)
        return self._finite(found, refs, lambda row: f"reference {row} of this part")[place]

    def partial_statistics(self, refs: F, weights: Floats) -> PartialStatistics:
        """What further references, to be averaged, say of the hypotheses."""
        return self.metric.partial_statistics(self.texts[self._distinct[0]], refs, weights)

    def finalize(self, statistics: PartialStatistics) -> Floats:
        """(H,) scores against the average of the references that the statistics are of."""
        distinct, place = self._distinct
        self.tally.add(distinct, 1)
        found = self.metric.finalize(self.texts[distinct], statistics, self.source)
        return self._finite(found, None, "the average of all references")[place]

    def quality(self) -> Floats:
        """(H,) what each hypothesis is worth by the source alone; counts as a pair with it."""
        if self.source is None:
            raise _without_source(self.metric)
        distinct, place = self._distinct
        self.tally.add(distinct, 1)
        found = self.metric.quality(self.texts[distinct], self.source)
        return self._finite(found, None, "the source")[place]

    def surrogate_mean(self) -> Floats:
        """(H,) of the metric's surrogate over all references.

        Counts as a pair for each hypothesis, as the score of an aggregate does.
        """
        distinct, place = self._distinct
        self.tally.add(distinct, 1)
        return self._finite(self._surrogate[0].mean, None, "all references (surrogate)")[place]

    def surrogate_values(self) -> Floats:
        """(H, R) of the metric's surrogate, which cost next to nothing."""
        made, refs, ref_place = self._surrogate
        values = self._finite(made.at(refs), refs, lambda row: f"reference {row} (surrogate)")
        return values[np.ix_(self._distinct[1], ref_place)]

    def vectors(self) -> Points:
        """(R, D) the references as points."""
        distinct, place = np.unique(self.ref_rows, return_inverse=True)
        points = self.metric.vectors(self.texts[distinct])
        for row in distinct[~finite_rows(points)]:
            raise InputError(f"metric {self.metric.name!r} has a vector that is not finite for "
                             f"{self._reference(row)}; check its model and its precision")
        return points[place]

    @lazy
    def _distinct(self) -> tuple[Ints, Ints]:
        """The rows of the hypotheses without repetition, and the place of each among them."""
        return np.unique(self.hyp_rows, return_inverse=True)

    @lazy
    def _surrogate(self) -> tuple[Surrogate[F], F, Ints]:
        """With the distinct references, and the place of each among them."""
        rows, place = np.unique(self.ref_rows, return_inverse=True)
        refs, mass = self.texts[rows], sums(place, self.segment.weights, rows.size)
        made = self.metric.surrogate(self.texts[self._distinct[0]], refs, mass, self.source)
        return made, refs, place

    def _finite(self, values: Floats, refs: F | None, name: Callable[[int], str] | str) -> Floats:
        """Scores of the distinct hypotheses, (D,) or (D, columns), all of which must be finite.

        One that is not leaves the segment without an answer: it would choose the first sample.
        """
        if np.isfinite(values).all():
            return values
        row, *column = np.argwhere(~np.isfinite(values))[0].tolist()
        found = values[(row, *column)]
        if refs is not None and not column:
            found, column = self._culprit(row, refs, found)
        other = name if isinstance(name, str) else name(*column) if column else "all references"
        first = int(np.flatnonzero(self.hyp_rows == self._distinct[0][row])[0])
        raise InputError(f"metric {self.metric.name!r} scored {found} for "
                         f"{self.segment.describe(first)} and {other}; finite numbers are needed: "
                         "check its model, its precision (dtype) and its cache")

    def _culprit(self, row: int, refs: F, total: float) -> tuple[float, list[int]]:
        """The score that made a sum over references infinite, and its column, if it was one."""
        scores = self.metric.scores(self.texts[self._distinct[0][[row]]], refs, self.source)[0]
        column = np.flatnonzero(~np.isfinite(scores))[:1].tolist()
        return (scores[column[0]] if column else total), column

    def _reference(self, row: int) -> str:
        """A reference for messages."""
        place = int(np.flatnonzero(self.ref_rows == row)[0])
        return f"reference {place} ({shortened(self.segment.references[place])})"

    def _utility(self, mass: Floats) -> Floats:
        """(H,) from the mass of each reference: duplicates are scored once, weighted k times."""
        per_row = sums(self.ref_rows, mass, len(self.texts))
        used = np.flatnonzero(per_row)
        distinct, place = self._distinct
        self.tally.add(distinct, used.size)
        matrix = self.matrix.at(distinct, used)
        if matrix is not None:
            result: Floats = (matrix @ per_row[used])[place]
            return result
        hyps = self.texts[distinct]
        refs = hyps if np.array_equal(distinct, used) else self.texts[used]
        found = self.metric.utility(hyps, refs, per_row[used], self.source)
        return self._finite(found, refs, lambda column: self._reference(used[column]))[place]

    def _utility_of_aggregates(self, groups: Groups, rows: Ints) -> Floats:
        refs = self.metric.aggregate(self.texts[rows], groups)
        distinct, place = self._distinct
        self.tally.add(distinct, len(groups))
        found = self.metric.utility(self.texts[distinct], refs, groups.mass, self.source)
        return self._finite(found, refs, lambda group: f"average {group} of references")[place]

    def _utility_without_self(self, mass: Floats, own: Ints) -> Floats:
        """Each hypothesis over the references but the one that is itself (by position).

        Added up without it rather than subtracted: a self with nearly all of the mass would take
        the digits of the others with it.
        """
        size = max(1, _BLOCK // mass.size)
        rows = np.arange(len(self.hyp_rows))
        found = np.concatenate([
            self.keep(block)._block_without_self(mass, own[block])
            for block in np.split(rows, range(size, rows.size, size))
        ])
        # a hypothesis whose only reference is itself has no utility; it ranks last
        judged = found[~np.isnan(found)]
        lowest = judged.min() if judged.size else 0.0
        result: Floats = np.where(np.isnan(found), lowest, found)
        return result

    def _block_without_self(self, mass: Floats, own: Ints) -> Floats:
        others = np.tile(mass, (own.size, 1))  # (h, R)
        others[np.arange(own.size), own] = 0
        total = others.sum(axis=1)
        summed = (self.scores() * others).sum(axis=1)
        result: Floats = np.divide(summed, total, out=np.full_like(total, np.nan), where=total > 0)
        return result


class Batch(Sequence[Segment]):
    """Segments that remember their pools, so that a later stage finds the features again.

    >>> import minrisk
    >>> batch = minrisk.Batch([minrisk.Segment(["a", "b", "a"])])
    >>> [pool.hyp_rows.tolist() for pool in batch.pools(minrisk.ChrF())]
    [[0, 1, 0]]
    """

    def __init__(self, segments: Iterable[Segment], parent: Batch | None = None,
                 rows: Sequence[Ints] = ()) -> None:
        self._segments = list(segments)
        self._parent = parent
        self._rows = rows
        self._pools: list[tuple[AnyMetric, list[Pool[Any]]]] = []  # metrics may not be hashable

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
        """With a tally of their own for whoever asks."""
        metric = as_metric(metric)
        found = self._known(metric)
        if found is None:
            found = list(_extract(metric, self._segments))
            self._pools.append((metric, found))
        return [replace(pool, tally=Tally()) for pool in found]

    def _known(self, metric: Metric[F]) -> list[Pool[F]] | None:
        """The pools of this batch, or of the one it was kept from."""
        for known, pools in self._pools:
            if known == metric:
                return pools
        theirs = self._parent._known(metric) if self._parent is not None else None
        if theirs is None:
            return None
        return [pool.keep(rows) for pool, rows in zip(theirs, self._rows, strict=True)]


def bind(metric: Metric[F], segments: Sequence[Segment]) -> Iterable[Pool[F]]:
    """A pool per segment: its features by this metric, extracted once.

    Args:
        metric: a metric, its name or class, or a function of hypothesis and reference.
        segments: some, which are bound one after the other and forgotten; or a `Batch`, which
            remembers them.

    >>> import minrisk
    >>> [pool.scores().tolist() for pool in bind(minrisk.ExactMatch(), [Segment(["a", "b"])])]
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    if isinstance(segments, Batch):
        return segments.pools(metric)
    return _extract(as_metric(metric), segments)


def _extract(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    if metric.features_per_segment:
        for segment in segments:
            yield from _extract_together(metric, [segment])
    else:
        yield from _extract_together(metric, segments)


def _extract_together(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    """One call of `features` for every distinct text of these segments."""
    rows: dict[str, int] = {}
    placed = []
    for segment in segments:
        own: dict[str, int] = {}  # numbered as they come, so that no other segment matters
        hyps = _rows(own, segment.hypotheses)
        refs = _reference_rows(own, segment, hyps)
        source = _rows(rows, _source(metric, segment))
        placed.append((segment, hyps, refs, _rows(rows, own), source))
    features = metric.features(list(rows))
    for segment, hyps, refs, texts, source in placed:
        yield Pool(segment, metric, features[texts], hyps, refs,
                   features[source] if source.size else None)


def _rows(known: dict[str, int], texts: Iterable[str]) -> Ints:
    """The row of each text; new ones are numbered on."""
    return np.array([known.setdefault(t, len(known)) for t in texts], dtype=np.intp)


def _reference_rows(known: dict[str, int], segment: Segment, hyps: Ints) -> Ints:
    if segment.references is segment.hypotheses:
        return hyps
    if segment.own is not None and segment.rows is None:  # the samples, as often as they count
        return np.repeat(hyps, segment.counts)
    return _rows(known, segment.references)


def _source(metric: AnyMetric, segment: Segment) -> tuple[str, ...]:
    if not metric.needs_source:
        return ()
    if segment.source is None:
        raise _without_source(metric)
    return (segment.source,)


def _without_source(metric: AnyMetric) -> InputError:
    return InputError(f"metric {metric.name!r} needs the source; give one for every segment")
