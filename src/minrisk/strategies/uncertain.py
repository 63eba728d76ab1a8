"""How far samples disagree: entropy over clusters of texts that are alike by the metric.

Semantic entropy (Kuhn et al. 2023) with the utility in the place of an entailment model: two texts
are alike if one is nearly as good a reference for the other as it is for itself.
"""

from __future__ import annotations

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
# hypotheses that others are compared with: the best, then some of what is like none of them
_BEST, _SOME = 4, 64
_REFERENCES = 64  # for the mean utility, where the strategy left utilities out


@dataclass(frozen=True)
class Clusters:
    """Semantic clusters of distinct hypotheses, numbered by the rank of their best hypothesis.

    >>> Clusters(np.array([0, 2]), np.array([0.75, 0.25]), np.array([0, 1])).mass.tolist()
    [0.75, 0.25]
    """

    rows: Ints  # (D,) the distinct hypotheses, by rank: their first places among all
    weights: Floats  # (D,) the share of the samples that each stands for
    labels: Ints  # (D,)

    @property
    def mass(self) -> Floats:
        return sums(self.labels, self.weights, int(self.labels.max()) + 1)

    @property
    def entropy(self) -> float:
        mass = self.mass[self.mass > 0]
        return max(0.0, float(-(mass * np.log(mass)).sum()))


@dataclass(frozen=True)
class Uncertain(MeasuringStrategy):
    """A strategy whose rankings say how far the samples disagree.

    Each hypothesis, from the best to the worst, joins the first cluster whose centre it is like, or
    begins one. Of more than 68 distinct hypotheses, the best and some others are centres, and what
    is like none of them stands alone. Costs 68 * n evaluations more, or n * n where n is less. A
    metric whose scores do not depend on references compares no texts: all distinct ones stand
    alone.

    Args:
        strategy: the strategy that ranks.
        threshold: the minimum score of a hypothesis against the centre of its cluster, as a share
            of the centre's score against itself.
        seed: seed of the references for the mean utility, where the strategy leaves some out.

    >>> import minrisk
    >>> samples = ["a cat sat", "a cat sat.", "no idea", "a cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Uncertain(minrisk.Standard("chrf")))
    >>> ranking.uncertainty.clusters, ranking.uncertainty.largest
    (2, 0.75)
    """

    strategy: Strategy = stage_option(help="strategy that ranks")
    threshold: float = option(THRESHOLD, ge=0, le=1,
                              help="minimum score of a hypothesis against its cluster's centre, as "
                              "a share of the centre's score against itself")
    seed: int = option(0, ge=0, help="seed of the references for the mean utility")

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        found = clusters(ranking, pool, self.threshold, compares_texts(self.strategy))
        measured = uncertainty(ranking, pool, found, self.seed)
        return replace(ranking, uncertainty=measured, pairs=ranking.pairs + pool.tally.pairs)


def uncertainty(ranking: Ranking, pool: Pool[Any], found: Clusters, seed: int = 0) -> Uncertainty:
    """Of a segment whose hypotheses are in these clusters."""
    utility = float(found.weights @ _utilities(ranking, pool, seed)[found.rows])
    return Uncertainty(found.entropy, float(found.mass.max()), utility, found.mass.size)


def clusters(ranking: Ranking, pool: Pool[Any], threshold: float = THRESHOLD,
             compares: bool = True) -> Clusters:
    """The semantic clusters of a segment; without comparisons, each hypothesis by itself."""
    distinct, inverse = pool.distinct_hypotheses()
    order = inverse[ranking.order]  # distinct hypotheses by rank, with repetitions
    order = order[np.sort(np.unique(order, return_index=True)[1])]
    labels = (_numbered(np.arange(order.size), order) if not compares
              else _labels(as_references(distinct), order, threshold))
    rows = np.zeros(order.size, np.intp)
    rows[inverse[::-1]] = np.arange(inverse.size)[::-1]  # the first of equal ones is written last
    return Clusters(rows[order], _weights(pool, distinct, inverse)[order], labels[order])


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


def _labels(pool: Pool[Any], order: Ints, threshold: float) -> Ints:
    """(D,) the cluster of each hypothesis; what is like no centre stands alone."""
    own = pool.segment.self_columns
    assert own is not None
    centre = np.full(order.size, -1)  # of the cluster of each
    for size in (_BEST, _SOME):
        waiting = order[centre[order] < 0]
        candidates = waiting[:size] if size == _BEST else _spread(waiting, size)
        if candidates.size:
            alike = _alike(pool.scores(own[candidates]), candidates, threshold)
        for column, row in enumerate(candidates.tolist()):
            if centre[row] < 0:
                centre[alike[:, column] & (centre < 0)] = row
    centre = np.where(centre < 0, np.arange(order.size), centre)
    return _numbered(centre, order)


def _spread(rows: Ints, size: int) -> Ints:
    """So many of them, evenly; all where there are fewer."""
    places: Ints = np.linspace(0, rows.size - 1, min(size, rows.size)).astype(np.intp)
    return rows[places]


def _numbered(centre: Ints, order: Ints) -> Ints:
    """(D,) clusters by number, in the order in which they first appear."""
    _, first, label = np.unique(centre[order], return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    labels = np.empty_like(order)
    labels[order] = rank[label]
    return labels


def _alike(scores: Floats, centres: Ints, threshold: float) -> npt.NDArray[np.bool_]:
    """(D, C) whether hypotheses score about as much against a centre as that itself does.

    A score against itself is the whole. Where it is not positive, as for negated errors, the
    worst score at hand is none of it.
    """
    whole = scores[centres, np.arange(centres.size)]
    none = np.where(whole > 0, 0.0, scores.min(axis=0))
    # "not below", so that what cannot be told apart is alike
    found: npt.NDArray[np.bool_] = scores - none >= threshold * (whole - none)
    found[centres, np.arange(centres.size)] = True
    return found


def _utilities(ranking: Ranking, pool: Pool[Any], seed: int) -> Floats:
    """(H,) the ranking's, or estimates by a few references where a stage left some out."""
    if np.isfinite(ranking.utility).all():
        return ranking.utility
    weights = pool.segment.weights
    rng = segment_rng(seed, pool.segment)
    some = rng.choice(weights.size, min(_REFERENCES, weights.size), replace=False)
    return pool.utility(Groups.subset(weights, some))
