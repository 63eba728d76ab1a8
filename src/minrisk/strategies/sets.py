"""Strategies for sets of hypotheses: a diverse set first, or the best of the largest cluster.

DMBR and KMBR of Jinnai et al. 2024a, Generating Diverse and High-Quality Texts by Minimum Bayes
Risk Decoding; structure-conditional MBR (Eikema et al. 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats, Ints, first_places
from minrisk._core.batch import as_batch
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MeanUtility, PoolStrategy
from minrisk.strategies.cascade import UncountedStage, exact_among
from minrisk.strategies.groups import Standard
from minrisk.strategies.uncertain import THRESHOLD, clusters


@dataclass(frozen=True)
class Diverse(MeanUtility, PoolStrategy):
    """Exact MBR, with a diverse set of good hypotheses first (DMBR).

    The set maximises, greedily, the sum of its utilities minus `diversity` / size times the sum of
    the scores of its members against each other. Costs n * m + 2 * k * n evaluations.

    Args:
        metric: the metric, its name or class, or a function.
        size: size of the set; smaller if there are fewer distinct texts.
        diversity: weight of the similarity within the set.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Diverse("chrf", size=2))
    >>> [samples[row] for row in ranking.order[:2]]
    ['the cat sat', 'cats sit']
    """

    name = "diverse"
    papers = ("Jinnai et al. 2024a",)
    cost = "n · m pairs, and 2 · k · n similarities, k = size"
    approximates_standard = False
    size: int = option(4, ge=1)
    diversity: float = option(1.0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        utility = pool.utility()
        different = first_places(pool.hyp_rows)
        chosen = self._chosen(pool.keep(different), utility[different])
        return pool.ranking(utility).first(different[chosen])

    def _chosen(self, pool: Pool[Any], utility: Floats) -> list[int]:
        gain, among = utility.copy(), pool.among_hypotheses()
        chosen: list[int] = []
        while len(chosen) < min(self.size, gain.size):
            chosen.append(Ranking.from_utility(gain).best)
            gain -= self.diversity / self.size * _similarity(among, chosen[-1])
            gain[chosen] = np.nan  # NaN ranks last
        return chosen


def _similarity(among: Pool[Any], row: int) -> Floats:
    """(H,) scores of all hypotheses against this one, plus its scores against all."""
    one = np.array([row])
    both: Floats = among.scores(one)[:, 0] + among.keep(one).scores()[0]
    return both


@dataclass(frozen=True)
class Medoids(MeanUtility, PoolStrategy):
    """Exact MBR, with a set of k medoids of the references first (KMBR).

    The set maximises the mean, over references, of the best score of a member. It is built
    greedily, then improved by exchanges. Costs n * m evaluations.

    Args:
        metric: the metric, its name or class, or a function.
        size: size of the set; smaller if there are fewer distinct texts.
        exchanges: maximum number of rounds of exchanges.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Medoids("chrf", size=2))
    >>> [samples[row] for row in ranking.order[:2]]
    ['the cat sat', 'cats sit']
    """

    name = "medoids"
    papers = ("Jinnai et al. 2024a",)
    cost = "n · m pairs"
    approximates_standard = False
    size: int = option(4, ge=1)
    exchanges: int = option(10, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        distinct, inverse = pool.distinct_hypotheses()
        columns, mass = pool.distinct_references()
        scores = distinct.scores(columns)
        ranking = pool.ranking((scores @ mass)[inverse])
        different = first_places(pool.hyp_rows)
        chosen = self._chosen(scores, mass)
        by_utility = chosen[np.argsort(-ranking.utility[different[chosen]], kind="stable")]
        return ranking.first(different[by_utility])

    def _chosen(self, scores: Floats, mass: Floats) -> Ints:
        chosen: list[int] = []
        while len(chosen) < min(self.size, len(scores)):
            chosen.append(_best_with(scores, mass, chosen)[0])
        for _ in range(self.exchanges):
            before = chosen.copy()
            for member in before:
                others = [c for c in chosen if c != member]
                candidate, value = _best_with(scores, mass, others)
                if value > _value(scores, mass, chosen):
                    chosen = [*others, candidate]
            if chosen == before:
                break
        return np.array(chosen)


def _best_with(scores: Floats, mass: Floats, others: list[int]) -> tuple[int, float]:
    """The hypothesis that improves the set `others` most, and the value of the resulting set."""
    near = scores[others].max(axis=0, initial=-np.inf)  # (R,)
    value = np.maximum(scores, near) @ mass
    value[others] = np.nan  # NaN ranks last
    best = Ranking.from_utility(value).best
    return best, float(value[best])


def _value(scores: Floats, mass: Floats, chosen: list[int]) -> float:
    return float(scores[chosen].max(axis=0) @ mass)


@dataclass(frozen=True)
class Cluster(Options):
    """Exact MBR within the heaviest cluster of similar hypotheses.

    A second metric clusters the hypotheses, as in `Uncertain`: by their answers, or else each
    hypothesis joins the first cluster whose centre it agrees with, or starts a new one. If the
    references are the samples, only those in the cluster are used: a majority vote over structures
    or meanings, then MBR. Separate references are all used.

    Args:
        metric: the metric, its name or class, or a function.
        similarity: the metric that clusters hypotheses. It embeds meanings or structures; or it
            compares answers (`exact-match`, `json-match`) or `outcomes`, for a majority vote within
            whose winner MBR chooses; hypotheses without an answer do not vote.
        threshold: minimum agreement with the centre of a cluster, as a share of the centre's score
            against itself.

    >>> import minrisk
    >>> samples = ["Yes.", "Yes!", "No, because of the rain.", "Yes, sure.", "No, it rains."]
    >>> strategy = minrisk.Cluster("chrf", minrisk.ExactMatch(r"Yes|No"))
    >>> minrisk.decode(samples, strategy=strategy).utility.round(1).tolist()
    [57.3, 56.2, nan, 59.1, nan]
    """

    name = "cluster"
    papers = ("Eikema et al. 2025",)
    cost = "n · m similarities, and k · k pairs in a cluster of k"
    approximates_standard = False
    metric: AnyMetric = metric_option()
    similarity: AnyMetric = metric_option()
    threshold: float = option(THRESHOLD, ge=0, le=1)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        batch = as_batch(segments)
        first = UncountedStage(Standard(self.similarity)).rank(batch)
        pools = zip(first, batch.pools(self.similarity), strict=True)
        kept = [self._heaviest(ranking, pool) for ranking, pool in pools]
        return exact_among(kept, first, batch.pools(self.metric))

    def _heaviest(self, ranking: Ranking, pool: Pool[Any]) -> Ints:
        """The rows of the hypotheses in the heaviest cluster; ties go to the better one.

        If the similarity is a vote, hypotheses without an answer are in no cluster; if none has an
        answer, all are kept.
        """
        grouped = clusters(ranking, pool, self.threshold, not pool.metric.ignores_references)
        _, inverse = pool.distinct_hypotheses()
        heaviest = Ranking.from_utility(grouped.mass).best if grouped.mass.size else -1
        rows = grouped.rows[grouped.labels == heaviest]
        return np.flatnonzero(np.isin(inverse, inverse[rows]))
