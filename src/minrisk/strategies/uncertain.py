"""Disagreement of samples: the entropy over clusters of texts that agree by the metric.

Semantic entropy (Kuhn et al. 2023) with the utility instead of an entailment model: two texts agree
if one is nearly as good a reference for the other as it is for itself; in a vote, if they have the
same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, first_places, numbered, sums
from minrisk._core.segment import Ranking, Segment, Uncertainty
from minrisk._core.strategy import (
    MeasuringStrategy,
    compares_texts,
    segment_rng,
)
from minrisk.plugins import Pool, bind, option

THRESHOLD = 0.6  # best predictor of chrF against human references: experiments/uncertainty
_BLOCK = 64  # candidate centres that are compared at once
_BEST = 4  # best hypotheses that are candidates, before one block of others, if a model compares
_REFERENCES = 64  # references that estimate the mean utility if the strategy left out utilities


@dataclass(frozen=True)
class Clusters:
    """Semantic clusters of distinct hypotheses, numbered by the rank of their best hypothesis.

    >>> half, quarter = np.full(2, 0.5), np.full(2, 0.25)
    >>> found = Clusters(np.array([0, 2]), half, np.array([0, -1]), alone=quarter)
    >>> found.mass.tolist(), round(found.entropy, 2)
    ([0.5], 1.04)
    """

    rows: Ints  # (D,) first row of each distinct hypothesis, by rank
    weights: Floats  # (D,) share of the samples that each stands for
    labels: Ints  # (D,) cluster; -1 for no cluster, because there is no answer
    alone: Floats  # share of each sample that is in no cluster

    @property
    def mass(self) -> Floats:
        """The share of all samples in each cluster."""
        known = self.labels >= 0
        return sums(self.labels[known], self.weights[known], int(self.labels.max()) + 1)

    @property
    def entropy(self) -> float:
        """The entropy in nats, with each sample that is in no cluster as one of its own."""
        mass = np.concatenate([self.mass, self.alone])
        mass = mass[mass > 0]
        return max(0.0, float(-(mass * np.log(mass)).sum()))


@dataclass(frozen=True)
class Uncertain(MeasuringStrategy):
    """A strategy whose rankings include the disagreement of the samples.

    In a vote, samples with the same answer form a cluster; those without an answer are in none.
    With other metrics each hypothesis, from the best to the worst, joins the first cluster whose
    centre it agrees with, or starts a new one; this costs n * n further evaluations. With metrics
    that load a model, only 68 hypotheses, the best and some others, are candidates for centres. If
    there are more, a hypothesis that agrees with none of these is a cluster of its own, so that
    entropy and number of clusters are upper bounds. With a metric that ignores references, each
    distinct text is a cluster of its own.

    Args:
        strategy: the strategy that ranks.
        threshold: minimum agreement with the centre of a cluster, as a share of the centre's score
            against itself. Cosines are first converted to 1 - sine of the angle, which is linear in
            the difference.
        seed: seed of the references that estimate the mean utility, if the strategy leaves some
            out.

    >>> import minrisk
    >>> samples = ["a cat sat", "a cat sat.", "no idea", "a cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Uncertain(minrisk.Standard("chrf")))
    >>> ranking.uncertainty.clusters, ranking.uncertainty.largest
    (2, 0.75)
    """

    threshold: float = option(THRESHOLD, ge=0, le=1)
    seed: int = option(0, ge=0)

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        groups = clusters(ranking, pool, self.threshold, compares_texts(self.strategy))
        measured = uncertainty(ranking, pool, groups, self.seed)
        return replace(ranking, uncertainty=measured, pairs=ranking.pairs + pool.tally.pairs)


def uncertainty(ranking: Ranking, pool: Pool[Any], groups: Clusters, seed: int = 0) -> Uncertainty:
    """The uncertainty of a segment with these clusters."""
    utility = float(groups.weights @ _utilities(ranking, pool, seed)[groups.rows])
    return Uncertainty(groups.entropy, float(groups.mass.max(initial=0)), utility, groups.mass.size,
                       float(groups.alone.sum()))


def clusters(ranking: Ranking, pool: Pool[Any], threshold: float = THRESHOLD,
             compares: bool = True) -> Clusters:
    """The semantic clusters of a segment; without `compares`, each hypothesis is its own.

    Sampled references that are not among the hypotheses are in no cluster.
    """
    distinct, inverse = pool.distinct_hypotheses()
    order = inverse[ranking.order]  # rows of distinct hypotheses by rank, with repetitions
    order = order[first_places(order)]
    classes = distinct.answer_labels()  # negative without an answer
    if not pool.metric.is_vote:
        answered = order[classes[order] >= 0]
        classes = np.full(order.size, -1)
        classes[answered] = answered
        if compares and answered.size:
            classes[answered] = _centres(as_references(distinct), answered, threshold)[answered]
    labels = _numbered(classes, order)
    rows = first_places(inverse)
    return Clusters(rows[order], _weights(pool, distinct, inverse)[order], labels[order],
                    _alone(pool, (labels >= 0)[inverse]))


def as_references(distinct: Pool[Any]) -> Pool[Any]:
    """The pool with the hypotheses as references."""
    if distinct.segment.self_columns is not None:
        return distinct
    given = distinct.segment
    segment = Segment(given.hypotheses, source=given.source, logprobs=given.logprobs,
                      lengths=given.lengths, confidences=given.confidences,
                      outcomes=None if given.outcomes is None else given.outcomes.hypotheses)
    (pool,) = bind(distinct.metric, [segment])
    return replace(pool, tally=distinct.tally)


def _weights(pool: Pool[Any], distinct: Pool[Any], inverse: Ints) -> Floats:
    """(D,) weight of each distinct hypothesis, as a reference or else by its count."""
    if pool.segment.self_columns is not None:
        per_text = sums(pool.ref_rows, pool.segment.weights, len(pool.texts))
        return per_text[distinct.hyp_rows]
    counts = sums(inverse, pool.segment.counts.astype(np.float64), len(distinct.hyp_rows))
    shares: Floats = counts / counts.sum()
    return shares


def _alone(pool: Pool[Any], is_clustered: npt.NDArray[np.bool_]) -> Floats:
    """The share of each sample that is in no cluster."""
    segment = pool.segment
    if segment.self_columns is not None:
        return segment.weights[~np.isin(pool.ref_rows, pool.hyp_rows[is_clustered])]
    return np.full(segment.counts[~is_clustered].sum(), 1 / segment.counts.sum())


def _centres(pool: Pool[Any], order: Ints, threshold: float) -> Ints:
    """(D,) the centre of each hypothesis's cluster; itself if it agrees with no other centre."""
    own = pool.segment.self_columns
    assert own is not None
    centre = np.full(own.size, -1)
    for candidates in _candidates(centre, order, is_cheap=not pool.metric.loads_model):
        scores = pool.scores(own[candidates])
        whole = scores[candidates, np.arange(candidates.size)]
        # `not <`, because NaN means indistinguishable
        agrees = ~(pool.metric.agreement(scores, whole) < threshold)
        for column, row in enumerate(candidates.tolist()):
            if centre[row] < 0:
                centre[agrees[:, column] & (centre < 0)] = row
                centre[row] = row
    return np.where(centre < 0, np.arange(own.size), centre)


def _candidates(centre: Ints, order: Ints, is_cheap: bool) -> Iterator[Ints]:
    """Candidate centres in blocks: all hypotheses without a centre by rank, or the best and some.
    """
    if not is_cheap:
        yield order[:_BEST]
        waiting = order[centre[order] < 0]
        if waiting.size:
            yield waiting[np.linspace(0, waiting.size - 1, min(_BLOCK, waiting.size)).astype(int)]
        return
    while (waiting := order[centre[order] < 0]).size:
        yield waiting[:_BLOCK]


def _numbered(classes: Ints, order: Ints) -> Ints:
    """(D,) cluster numbers in order of first appearance; -1 for no cluster."""
    known = order[classes[order] >= 0]
    labels = np.full(order.size, -1)
    labels[known] = numbered(classes[known].tolist(), {})
    return labels


def _utilities(ranking: Ranking, pool: Pool[Any], seed: int) -> Floats:
    """(H,) the ranking's utilities, or estimates from a few references if a stage left some out."""
    if np.isfinite(ranking.utility).all():
        return ranking.utility
    weights = pool.segment.weights
    columns = np.flatnonzero(weights)
    rng = segment_rng(seed, pool.segment)
    some = rng.choice(columns, min(_REFERENCES, columns.size), replace=False)
    return pool.utility(some)
