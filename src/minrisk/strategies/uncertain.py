"""How far samples disagree: entropy over clusters of texts that agree by the metric.

Semantic entropy (Kuhn et al. 2023) with the utility in the place of an entailment model: two texts
agree if one is nearly as good a reference for the other as it is for itself; of a vote, if they
have the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, sums
from minrisk._core.batch import bind
from minrisk._core.groups import Groups
from minrisk._core.options import option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment, Uncertainty
from minrisk._core.strategy import Strategy, compares_texts, segment_rng, stage_option
from minrisk.strategies._wrapper import MeasuringStrategy

THRESHOLD = 0.6  # which tells most of chrF against human references: experiments/uncertainty
_BLOCK = 64  # hypotheses that others are compared with together
_BEST = 4  # of these, where a model is spared comparisons: the best, before a block of the others
_REFERENCES = 64  # for the mean utility, where the strategy left utilities out


@dataclass(frozen=True)
class Clusters:
    """Semantic clusters of distinct hypotheses, numbered by the rank of their best hypothesis.

    >>> half, quarter = np.full(2, 0.5), np.full(2, 0.25)
    >>> found = Clusters(np.array([0, 2]), half, np.array([0, -1]), alone=quarter)
    >>> found.mass.tolist(), round(found.entropy, 2)
    ([0.5], 1.04)
    """

    rows: Ints  # (D,) the distinct hypotheses, by rank: their first places among all
    weights: Floats  # (D,) the share of the samples that each stands for
    labels: Ints  # (D,) -1 without an answer, which is in no cluster
    alone: Floats  # the share of each sample that is in no cluster

    @property
    def mass(self) -> Floats:
        """The share of all samples in each cluster."""
        known = self.labels >= 0
        return sums(self.labels[known], self.weights[known], int(self.labels.max()) + 1)

    @property
    def entropy(self) -> float:
        """Over the clusters, and each sample that is in none."""
        mass = np.concatenate([self.mass, self.alone])
        mass = mass[mass > 0]
        return max(0.0, float(-(mass * np.log(mass)).sum()))


@dataclass(frozen=True)
class Uncertain(MeasuringStrategy):
    """A strategy whose rankings say how far the samples disagree.

    Of a vote, the samples with the same answer are a cluster; one without an answer is in none. By
    other metrics each hypothesis, from the best to the worst, joins the first cluster with whose
    centre it agrees, or begins one; this costs n * n evaluations more. Of metrics that load a model
    only 68 hypotheses are compared with all others, the best and some further ones: of more
    distinct ones, what agrees with none of these stands alone, so that entropy and clusters are
    upper bounds. A metric whose scores do not depend on references compares no texts: all distinct
    ones stand alone.

    Args:
        strategy: the strategy that ranks.
        threshold: the minimum agreement of a hypothesis with the centre of its cluster: its score,
            as a share of the centre's score against itself. Cosines first become what is linear in
            the difference: 1 - sine of the angle.
        seed: seed of the references for the mean utility, where the strategy leaves some out.

    >>> import minrisk
    >>> samples = ["a cat sat", "a cat sat.", "no idea", "a cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Uncertain(minrisk.Standard("chrf")))
    >>> ranking.uncertainty.clusters, ranking.uncertainty.largest
    (2, 0.75)
    """

    strategy: Strategy = stage_option(help="strategy that ranks")
    threshold: float = option(THRESHOLD, ge=0, le=1,
                              help="minimum agreement of a hypothesis with its cluster's centre, "
                              "as a share of the centre's score against itself")
    seed: int = option(0, ge=0, help="seed of the references for the mean utility")

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        found = clusters(ranking, pool, self.threshold, compares_texts(self.strategy))
        measured = uncertainty(ranking, pool, found, self.seed)
        return replace(ranking, uncertainty=measured, pairs=ranking.pairs + pool.tally.pairs)


def uncertainty(ranking: Ranking, pool: Pool[Any], found: Clusters, seed: int = 0) -> Uncertainty:
    """Of a segment whose hypotheses are in these clusters."""
    utility = float(found.weights @ _utilities(ranking, pool, seed)[found.rows])
    return Uncertainty(found.entropy, float(found.mass.max(initial=0)), utility, found.mass.size,
                       float(found.alone.sum()))


def clusters(ranking: Ranking, pool: Pool[Any], threshold: float = THRESHOLD,
             compares: bool = True) -> Clusters:
    """The semantic clusters of a segment; without comparisons, each hypothesis by itself.

    References that are samples, but none of the hypotheses, are in no cluster.
    """
    distinct, inverse = pool.distinct_hypotheses()
    order = inverse[ranking.order]  # distinct hypotheses by rank, with repetitions
    order = order[np.sort(np.unique(order, return_index=True)[1])]
    classes = distinct.choices()  # negative without an answer
    if not pool.metric.is_vote:
        answered = order[classes[order] >= 0]
        classes = np.full(order.size, -1)
        classes[answered] = answered
        if compares and answered.size:
            classes[answered] = _centres(as_references(distinct), answered, threshold)[answered]
    labels = _numbered(classes, order)
    rows = np.zeros(order.size, np.intp)
    rows[inverse[::-1]] = np.arange(inverse.size)[::-1]  # the first of equal ones is written last
    return Clusters(rows[order], _weights(pool, distinct, inverse)[order], labels[order],
                    _alone(pool, (labels >= 0)[inverse]))


def as_references(distinct: Pool[Any]) -> Pool[Any]:
    """The hypotheses as each other's references."""
    if distinct.segment.self_columns is not None:
        return distinct
    given = distinct.segment
    segment = Segment(given.hypotheses, source=given.source, logprobs=given.logprobs,
                      lengths=given.lengths,
                      outcomes=None if given.outcomes is None else given.outcomes.hypotheses)
    (pool,) = bind(distinct.metric, [segment])
    return replace(pool, tally=distinct.tally)


def _weights(pool: Pool[Any], distinct: Pool[Any], inverse: Ints) -> Floats:
    """(D,) of each distinct hypothesis, as a reference or else as samples."""
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
    """(D,) the centre of the cluster of each of these; what agrees with none stands alone."""
    own = pool.segment.self_columns
    assert own is not None
    centre = np.full(own.size, -1)
    for candidates in _candidates(centre, order, is_cheap=not pool.metric.loads_model):
        scores = pool.scores(own[candidates])
        whole = scores[candidates, np.arange(candidates.size)]
        # not "below", so that what cannot be told apart agrees
        agrees = ~(pool.metric.agreement(scores, whole) < threshold)
        for column, row in enumerate(candidates.tolist()):
            if centre[row] < 0:
                centre[agrees[:, column] & (centre < 0)] = row
                centre[row] = row
    return np.where(centre < 0, np.arange(own.size), centre)


def _candidates(centre: Ints, order: Ints, is_cheap: bool) -> Iterator[Ints]:
    """Hypotheses without a centre, in blocks: all by rank, or the best and some of the others."""
    if not is_cheap:
        yield order[:_BEST]
        waiting = order[centre[order] < 0]
        if waiting.size:
            yield waiting[np.linspace(0, waiting.size - 1, min(_BLOCK, waiting.size)).astype(int)]
        return
    while (waiting := order[centre[order] < 0]).size:
        yield waiting[:_BLOCK]


def _numbered(classes: Ints, order: Ints) -> Ints:
    """(D,) clusters by number, in the order in which they first appear; -1 is none."""
    known = order[classes[order] >= 0]
    _, first, label = np.unique(classes[known], return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    labels = np.full(order.size, -1)
    labels[known] = rank[label]
    return labels


def _utilities(ranking: Ranking, pool: Pool[Any], seed: int) -> Floats:
    """(H,) the ranking's, or estimates by a few references where a stage left some out."""
    if np.isfinite(ranking.utility).all():
        return ranking.utility
    weights = pool.segment.weights
    columns = np.flatnonzero(weights)
    rng = segment_rng(seed, pool.segment)
    some = rng.choice(columns, min(_REFERENCES, columns.size), replace=False)
    return pool.utility(Groups.subset(weights, some))
