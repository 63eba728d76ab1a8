"""Batches of segments, and `bind`, which extracts their features by a metric once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from minrisk._core.adapters import as_metric
from minrisk._core.arrays import Ints, numbered
from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric, F, Metric, reads_segment
from minrisk._core.pool import Pool, Tally
from minrisk._core.segment import Segment


class Batch(Sequence[Segment]):
    """Segments that cache their pools, so that a later stage does not extract features again.

    Args:
        segments: the segments.
        parent: the batch from which `keep` made this one.
        rows: the hypotheses of each segment of the parent that this batch keeps.

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
        """The batch with only these hypotheses of each segment; features are shared."""
        kept = [s.keep(r) for s, r in zip(self._segments, rows, strict=True)]
        return Batch(kept, parent=self, rows=rows)

    def pools(self, metric: Metric[F]) -> list[Pool[F]]:
        """One pool per segment; each call returns pools with their own count of pairs."""
        metric = as_metric(metric)
        pools = self._known(metric)
        if pools is None and metric.compares_hypotheses and self._parent is not None:
            self._parent.pools(metric)
            pools = self._known(metric)
        if pools is None:
            pools = list(_extract(metric, self._segments))
            self._pools.append((metric, pools))
        return [replace(pool, tally=Tally()) for pool in pools]

    def _known(self, metric: Metric[F]) -> list[Pool[F]] | None:
        """The cached pools of this batch, or of its parent."""
        for known, pools in self._pools:
            if known == metric:
                return pools
        theirs = self._parent._known(metric) if self._parent is not None else None
        if theirs is None:
            return None
        return [pool.keep(rows) for pool, rows in zip(theirs, self._rows, strict=True)]


def as_batch(segments: Sequence[Segment]) -> Batch:
    """The segments as a batch, so that strategies that share a metric share the features."""
    return segments if isinstance(segments, Batch) else Batch(segments)


def bind(metric: Metric[F], segments: Sequence[Segment]) -> Iterable[Pool[F]]:
    """Create one pool per segment, with its features by this metric.

    Args:
        metric: a metric, its name or class, or a function of hypothesis and reference.
        segments: a list of segments; or a `Batch`, which caches the pools.

    Returns:
        The pools in order, made one after the other where the metric extracts features per
        segment.

    Raises:
        InputError: if the metric needs a source that a segment does not have.

    >>> import minrisk
    >>> [pool.scores().tolist() for pool in bind(minrisk.ExactMatch(), [Segment(["a", "b"])])]
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    if isinstance(segments, Batch):
        return segments.pools(metric)
    return _extract(as_metric(metric), segments)


def _extract(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    if metric.features_per_segment or reads_segment(metric):
        for segment in segments:
            yield from _extract_together(metric, [segment])
    else:
        yield from _extract_together(metric, segments)


def _extract_together(metric: Metric[F], segments: Sequence[Segment]) -> Iterator[Pool[F]]:
    """Extract the features of all distinct texts of these segments with one call."""
    rows: dict[str, int] = {}
    bound = []
    for segment in segments:
        own: dict[str, int] = {}  # rows within the segment, so that results do not depend on others
        compared = _compared(metric, segment)
        hyps = numbered(compared.hypotheses, own)
        refs = _reference_rows(own, compared, hyps)
        source = numbered(_source(metric, segment), rows)
        bound.append((segment, hyps, refs, numbered(own, rows), source))
    features = (metric.segment_features(segments[0], list(rows)) if reads_segment(metric)
                else metric.features(list(rows)))
    _check_features(metric.name, features, len(rows))
    for segment, hyps, refs, texts, source in bound:
        yield Pool(segment, metric, features[texts], hyps, refs,
                   features[source] if source.size else None)


def _check_features(name: str, features: Any, count: int) -> None:
    """Raise InputError unless features have one row per text and rows can be selected."""
    is_list = isinstance(features, str | list | tuple | dict | None)
    if is_list or not hasattr(features, "__getitem__") or not hasattr(features, "__len__"):
        raise InputError(f"metric {name!r}: `features` returned {type(features).__name__}, "
                         "expected something whose rows an array of numbers selects, such as an "
                         "array of NumPy with a row for each text")
    if len(features) != count:
        raise InputError(f"metric {name!r}: `features` returned {len(features)} rows for {count} "
                         "texts; expected a row for each")


def _reference_rows(known: dict[str, int], segment: Segment, hyps: Ints) -> Ints:
    if segment.references is segment.hypotheses:
        return hyps
    if segment.self_columns is not None and segment.rows is None:
        return np.repeat(hyps, segment.counts)  # the references are the hypotheses
    return numbered(segment.references, known)


def _compared(metric: AnyMetric, segment: Segment) -> Segment:
    """The segment with the texts that the metric compares: its own, or its outcomes."""
    if not metric.compares_outcomes:
        return segment
    if segment.outcomes is None:
        raise InputError(f"metric {metric.name!r} compares outcomes; give outcomes (one per "
                         "sample) for every segment")
    return segment.outcomes


def _source(metric: AnyMetric, segment: Segment) -> tuple[str, ...]:
    if segment.source is None and metric.needs_source:
        raise InputError(f"metric {metric.name!r} needs the source; give one for every segment")
    return () if segment.source is None or not metric.reads_source else (segment.source,)

