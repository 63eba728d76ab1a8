"""Combinations of metrics: sums and products, both directions, scores above a threshold.

Structure-conditional MBR (Eikema et al. 2025) sets scores below a threshold to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import fmean
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import Floats, Ints, objects
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import Ability, AnyMetric, DerivedMetric, PartialStatistics, Traits
from minrisk._core.registry import SUM, is_sum, quoted
from minrisk.metrics.wrappers import WrapperMetric
from minrisk.plugins import Groups, Segment, inner, option

_RANK_DECIMALS = 9  # scores equal to this many decimals, relative to the largest, are ties
_EQUAL = 1e-12  # relative difference below which utilities are equal up to rounding
_MASS_ERROR = 1e-6
_OF_UTILITIES = ("utility-rank", "z-score", "min-max")


@dataclass(frozen=True, eq=False)
class _CombinedFeatures:
    """The features of each metric, row by row."""

    features: tuple[Any, ...]
    everyone: tuple[Any, ...] | None = None  # features of all hypotheses of the segment, for ranks

    def __len__(self) -> int:
        return len(self.features[0])

    def __getitem__(self, rows: Ints, /) -> _CombinedFeatures:
        return _CombinedFeatures(tuple(part[rows] for part in self.features), self.everyone)


@dataclass(frozen=True)
class Combined(DerivedMetric[_CombinedFeatures]):
    """A weighted sum of metrics, such as --metric chrf*0.5+comet.

    Args:
        metrics: the metrics, each by object, class or name.
        weights: weight of each metric [default: 1].
        by: add scores or ranks for each reference, multiply scores, or add utilities that are
            ranked or scaled over the segment. "score" adds the scores, which should have similar
            scales; "rank" the share of all hypotheses of the segment that each one outranks by each
            metric, for each reference (so strategies that drop hypotheses save nothing). "product"
            multiplies the scores, which should not be negative (Eikema et al. 2025 multiply a
            utility by an embedding's cosine: `chrf+embedding`, with `unit` of the embedding);
            references cannot be averaged then. The others add normalised utilities of all
            hypotheses of the segment, so that scales do not matter: "utility-rank" the share of
            different hypotheses that each one outranks (Kovacs et al. 2024), "z-score" utilities
            with mean 0 and standard deviation 1, "min-max" utilities from 0 to 1. They define no
            scores of pairs, so strategies that need these reject them; strategies that drop
            hypotheses save nothing.

    Raises:
        InputError: if there are no metrics, the number of weights differs from that of metrics, or
            a product has weights.

    >>> import minrisk
    >>> both = minrisk.Combined((minrisk.ChrF(), minrisk.BLEU()), weights=(0.5, 0.5))
    >>> both.name
    'chrf*0.5+bleu*0.5'
    >>> minrisk.decode(["the cat sat", "a cat sat", "the cat sat down"], metric=both).text
    'the cat sat'
    """

    papers = ("Kovacs et al. 2024",)
    cost = "that of its metrics"
    metrics: tuple[AnyMetric, ...] = inner(help="inner metrics, as in chrf*0.5+comet", several=True)
    weights: tuple[float, ...] = option(())
    by: Literal["score", "rank", "product", "utility-rank", "z-score", "min-max"] = option("score")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.metrics, tuple) or not self.metrics:
            raise InputError("combined: metrics must be a tuple of at least one metric, "
                             "as in chrf+comet")
        weights = self.weights or (1.0,) * len(self.metrics)
        if len(weights) != len(self.metrics):
            raise InputError(f"combined: expected {len(self.metrics)} weights (one per metric); "
                             f"got {len(weights)}")
        if self.by == "product" and set(weights) != {1.0}:
            raise InputError(Wording("combined: weights have no effect on a product; leave them "
                                     "out, or add the scores (by='score')"))
        object.__setattr__(self, "weights", weights)
        if self.compares_outcomes and not all(m.compares_outcomes for m in self.metrics):
            raise InputError(f"combined: some metrics of {self.name} compare outcomes and some "
                             "compare texts, which cannot be added; the strategy 'cluster' takes "
                             "one of each")

    @property
    def name(self) -> str:
        return "+".join(map(_term, self.metrics, self.weights))

    @property
    def traits(self) -> Traits:
        """Sums average references if all of the metrics do; products do not."""
        traits = Traits.combined(self.metrics)
        return replace(traits, abilities=Ability.NONE if self.by == "product" else traits.abilities,
                       is_error=traits.is_error and self.by == "score" and min(self.weights) > 0,
                       compares_hypotheses=self._is_relative or traits.compares_hypotheses)

    @property
    def _is_relative(self) -> bool:
        """Whether scores are ranked or scaled relative to all hypotheses of the segment."""
        return self.by in ("rank", *_OF_UTILITIES)

    def features(self, texts: Sequence[str]) -> _CombinedFeatures:
        return _CombinedFeatures(tuple(metric.features(texts) for metric in self.metrics))

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> _CombinedFeatures:
        features = tuple(metric.segment_features(segment, texts) for metric in self.metrics)
        if not self._is_relative:
            return _CombinedFeatures(features)
        compared = segment.outcomes if self.compares_outcomes and segment.outcomes else segment
        rows = {text: row for row, text in enumerate(texts)}
        hyps = np.array([rows[text] for text in dict.fromkeys(compared.hypotheses)])
        return _CombinedFeatures(features, tuple(part[hyps] for part in features))

    def as_given(self, refs: _CombinedFeatures) -> _CombinedFeatures:
        parts = zip(self.metrics, refs.features, strict=True)
        return replace(refs, features=tuple(metric.as_given(part) for metric, part in parts))

    def votes_among(self, features: _CombinedFeatures) -> Iterator[tuple[AnyMetric, Any]]:
        for metric, part in zip(self.metrics, features.features, strict=True):
            yield from metric.votes_among(part)

    def scores(self, hyps: _CombinedFeatures, refs: _CombinedFeatures,
               source: _CombinedFeatures | None = None) -> Floats:
        """(H, R) the weighted sum, or the product, for every pair."""
        if self.by in _OF_UTILITIES:
            raise InputError(Wording("combined: by={by!r} compares hypotheses by their utilities, "
                                     "which single pairs do not have; choose a strategy that needs "
                                     "no scores of pairs, such as standard or aggregate, or "
                                     "by='rank'", by=self.by))
        parts = [weight * self._relative(metric.scores, whole, ours, theirs, src)
                 for metric, weight, ours, theirs, src, whole in self._parts(hyps, refs, source)]
        return reduce(np.multiply if self.by == "product" else np.add, parts)

    def utility(self, hyps: _CombinedFeatures, refs: _CombinedFeatures, mass: Floats,
                source: _CombinedFeatures | None = None) -> Floats:
        """(H,) `scores @ mass`, computed by each metric's `utility`; or normalised utilities."""
        if self.by in ("rank", "product"):
            return self.scores(hyps, refs, source) @ mass
        if self.by in _OF_UTILITIES and abs(mass.sum() - 1) > _MASS_ERROR:
            raise InputError(Wording("combined: by={by!r} needs all references at once, not in "
                                     "parts", by=self.by))
        total = np.zeros(len(hyps))
        for metric, weight, ours, theirs, src, whole in self._parts(hyps, refs, source):
            total += weight * self._relative(metric.utility, whole, ours, theirs, mass, src)
        return total

    def aggregate(self, refs: _CombinedFeatures, groups: Groups) -> _CombinedFeatures:
        parts = zip(self.metrics, refs.features, strict=True)
        return _CombinedFeatures(tuple(metric.aggregate(part, groups) for metric, part in parts))

    def partial_statistics(self, hyps: _CombinedFeatures, refs: _CombinedFeatures,
                           weights: Floats) -> PartialStatistics:
        """The partial statistics of each metric."""
        return objects(metric.partial_statistics(ours, theirs, weights)
                       for metric, _, ours, theirs, *_ in self._parts(hyps, refs, None))

    def finalize(self, hyps: _CombinedFeatures, statistics: PartialStatistics,
                 source: _CombinedFeatures | None = None) -> Floats:
        total = np.zeros(len(hyps))
        parts = _CombinedFeatures(tuple(statistics))  # the statistics of each metric
        for metric, weight, ours, part, src, _ in self._parts(hyps, parts, source):
            total += weight * self._relative(metric.finalize, None, ours, part, src)
        return total

    def _relative(self, judge: Callable[..., Floats], whole: Any, hyps: Any, *given: Any) -> Floats:
        """(H, R) scores or (H,) utilities to be added: unchanged, ranked or scaled.

        They are relative to the whole segment; if that is None, to these hypotheses.
        """
        values = judge(hyps, *given)
        if not self._is_relative:
            return values
        others = values if whole is None or len(whole) == len(hyps) else judge(whole, *given)
        if self.by in ("rank", "utility-rank"):
            return _rank_shares(values, others)
        return _scaled(values, others, self.by == "z-score")

    def _parts(self, hyps: _CombinedFeatures, refs: _CombinedFeatures,
               source: _CombinedFeatures | None) -> Any:
        """For each metric: itself, its weight, and its features; also of all hypotheses."""
        none = (None,) * len(self.metrics)
        return zip(self.metrics, self.weights, hyps.features, refs.features,
                   source.features if source is not None else none, hyps.everyone or none,
                   strict=True)


def _term(metric: AnyMetric, weight: float) -> str:
    """A metric and its weight in the name of a sum, so that the name can be parsed again."""
    name = f"{SUM}:{quoted(metric.name)}" if is_sum(metric.name) else metric.name
    shown = f"{weight:g}"
    return name if weight == 1 else f"{name}*{shown if float(shown) == weight else repr(weight)}"


def _scaled(values: Floats, whole: Floats, standardize: bool) -> Floats:
    """(H,) values scaled so that those of the whole segment have mean 0 and standard deviation 1,
    or range from 0 to 1; zeros if these are all equal.
    """
    offset, size = (whole.mean(), whole.std()) if standardize else (whole.min(), np.ptp(whole))
    if size <= _EQUAL * np.abs(whole).max(initial=0.0):
        return np.zeros_like(values)
    result: Floats = (values - offset) / size
    return result


def _rank_shares(scores: Floats, whole: Floats) -> Floats:
    """(H, R) the share of all hypotheses (P, R) with a lower score against the same reference.

    Ties count half.

    Utilities, (H,) and (P,), are treated as scores against one reference.
    """
    if scores.ndim == 1:
        return _rank_shares(scores[:, None], whole[:, None])[:, 0]
    scale = np.abs(whole).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    values, others = (np.round(part / scale, _RANK_DECIMALS) for part in (scores, whole))
    result: Floats = np.empty_like(values)
    for column, ordered in enumerate(np.sort(others, axis=0).T):
        own = values[:, column]
        below = np.searchsorted(ordered, own, "left") + np.searchsorted(ordered, own, "right")
        result[:, column] = below / (2 * ordered.size)
    return result


@dataclass(frozen=True)
class Symmetric(WrapperMetric):
    """The mean of a metric in both directions: --metric symmetric:NAME.

    The score of a pair is the mean of u(h, r) and u(r, h); references cannot be averaged.

    Args:
        metric: the inner metric, by object, class or name.

    >>> import minrisk
    >>> symmetric = minrisk.Symmetric(minrisk.ChrF())
    >>> texts = symmetric.features(["the cat sat", "a cat"])
    >>> symmetric.scores(texts, texts).round(1)
    array([[100. ,  32.5],
           [ 32.5, 100. ]])
    """

    kind = "symmetric"
    cost = "twice that of its metric"
    metric: AnyMetric = inner(help="an inner metric, as in symmetric:edit")

    @property
    def traits(self) -> Traits:
        """The traits of the metric, except that references matter: in reverse, they are scored."""
        return replace(super().traits, ignores_references=False)

    def answers(self, features: Any) -> list[str | None] | None:
        return self.metric.answers(features)

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        """(H, R)"""
        there = self.metric.scores(hyps, refs, source)
        back = there if hyps is refs else self.metric.scores(refs, hyps, source)
        result: Floats = (there + back.T) / 2
        return result

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 2 S) statistics of both directions; in reverse, every reference is a hypothesis."""
        there: Floats = self.metric.statistics(hyps, refs)
        back = [self.metric.statistics(own, [[hyp]] * len(own)).sum(axis=0)
                for hyp, own in zip(hyps, refs, strict=True)]
        return np.concatenate([there, np.reshape(back, there.shape)], axis=1)

    def corpus(self, statistics: Floats) -> float:
        return fmean(map(self.metric.corpus, np.split(statistics, 2)))


@dataclass(frozen=True)
class Cutoff(WrapperMetric):
    """The scores of a metric that reach a threshold: --metric cutoff:NAME.

    Only references that are similar to a hypothesis add to its utility, so that the choice is
    typical of one kind of text, rather than a compromise between several (Eikema et al. 2025).
    References cannot be averaged. The paper also leaves self out (`leave_self_out`).

    Args:
        metric: the inner metric, by object, class or name.
        threshold: minimum score that counts.
        below: score of pairs below the threshold [default: 0]. Error rates such as `ter` need it,
            because their scores are negative, and 0 is the best one.

    Raises:
        InputError: if the metric is an error rate and `below` is missing, or not below the
            threshold.

    >>> import minrisk
    >>> cutoff = minrisk.Cutoff(minrisk.ChrF(), threshold=50)
    >>> texts = cutoff.features(["the cat sat", "a cat", "the cat sat down"])
    >>> cutoff.scores(texts, texts).round(1)
    array([[100. ,   0. ,  66. ],
           [  0. , 100. ,   0. ],
           [ 88.6,   0. , 100. ]])
    """

    kind = "cutoff"
    papers = ("Eikema et al. 2025",)
    cost = "n · m scores of its metric"
    metric: AnyMetric = inner(help="an inner metric, as in cutoff:chrf")
    threshold: float = option()
    below: float | None = option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        below = self.below
        if below is None and self.metric.is_error:
            raise InputError(Wording("cutoff: {name!r} is an error, whose best score is 0; give "
                                     "below=, a score under the threshold of {threshold:g}",
                                     name=self.metric.name, threshold=self.threshold))
        if (below or 0.0) > self.threshold:
            raise InputError(f"cutoff: below must be at most the threshold, {self.threshold:g}; "
                             f"got {below or 0:g}")

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        """(H, R)"""
        scores = self.metric.scores(hyps, refs, source)
        result: Floats = np.where(scores >= self.threshold, scores, self.below or 0.0)
        return result
