"""Strategies that choose groups of references: all of them, a subset, or averages.

Standard MBR (Eikema & Aziz 2020); N-by-S MBR, with a subset of the references (Eikema & Aziz 2022);
reference aggregation (Vamvas & Sennrich 2024); and averages of references with similar embeddings
(Deguchi et al. 2024, Centroid-Based Efficient Minimum Bayes Risk Decoding), by weighted k-means
with k-means++ initialisation (Arthur & Vassilvitskii 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints, Points
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import Ability, AnyMetric, F, PartialStatistics
from minrisk._core.strategy import (
    Budget,
    MeanUtility,
    PoolStrategy,
    segment_rng,
    shuffled,
)
from minrisk.plugins import Groups, Pool, Ranking, Segment, metric_option, option


@dataclass(frozen=True)
class Standard(MeanUtility, PoolStrategy):
    """Exact MBR: every hypothesis against every reference.

    Args:
        metric: the metric, its name or class, or a function.
        leave_self_out: skip the pair of a hypothesis with itself.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Standard("chrf")).text
    'the cat sat'
    """

    name = "standard"
    papers = ("Eikema & Aziz 2020",)
    cost = "n · m pairs"
    leave_self_out: bool = option(False)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.utility(leave_self_out=self.leave_self_out))

    def partial_statistics(self, pool: Pool[F], refs: F, weights: Floats) -> PartialStatistics:
        """Weighted sums of scores; those of all parts add up to utilities."""
        return pool.summed_scores(refs, weights)

    def finalize(self, pool: Pool[F], statistics: PartialStatistics) -> Floats:
        return statistics


@dataclass(frozen=True)
class NByS(MeanUtility, PoolStrategy):
    """Every hypothesis against `subset` of the references.

    Args:
        metric: the metric, its name or class, or a function.
        subset: number of references.
        first: take the first references instead of random ones.
        leave_self_out: skip the pair of a hypothesis with itself.
        seed: seed of the random choice.

    Raises:
        InputError: when it ranks, if a segment has fewer references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.NByS("chrf", subset=3)).text
    'the cat sat'
    """

    name = "n-by-s"
    papers = ("Eikema & Aziz 2022",)
    cost = "n · s pairs, s = subset"
    tried = Budget("subset", "references")
    subset: int = option(ge=1)
    first: bool = option(False)
    leave_self_out: bool = option(False)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.utility(self._columns(pool.segment), self.leave_self_out))

    def _columns(self, segment: Segment) -> Ints:
        count = len(segment.references)
        if not 1 <= self.subset <= count:
            raise InputError(Wording("n-by-s: subset={subset} of {count} references; choose from 1 "
                                     "to {count}", subset=self.subset, count=count))
        rng = None if self.first else segment_rng(self.seed, segment)
        return shuffled(segment, rng)[: self.subset]


@dataclass(frozen=True)
class Aggregate(MeanUtility, PoolStrategy):
    """Every hypothesis against the average reference.

    Args:
        metric: the metric that judges hypotheses, which must average references.
        groups: number of averages; more than one makes aggregation partial.
        contiguous: average neighbouring references instead of random ones.
        seed: seed of the random partition.

    Raises:
        InputError: if the metric cannot average references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Aggregate("chrf")).text
    'the cat sat'
    """

    name = "aggregate"
    papers = ("Vamvas & Sennrich 2024", "DeNero et al. 2009")
    cost = "n pairs, and an average of m references; n · s with s groups"
    tried = Budget("groups", "references")
    metric: AnyMetric = metric_option(needs=Ability.AVERAGES)
    groups: int = option(1, ge=1)
    contiguous: bool = option(False)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.utility_of_averages(self._split(pool.segment)))

    def partial_statistics(self, pool: Pool[F], refs: F, weights: Floats) -> PartialStatistics:
        if self.groups != 1:
            raise InputError(Wording("references in parts have one average; expected groups=1, "
                                     "got groups={groups}", groups=self.groups))
        return pool.partial_statistics(refs, weights)

    def finalize(self, pool: Pool[F], statistics: PartialStatistics) -> Floats:
        return pool.finalize(statistics)

    def _split(self, segment: Segment) -> Groups:
        rng = None if self.contiguous else segment_rng(self.seed, segment)
        return Groups.split(segment.weights, self.groups, rng)


@dataclass(frozen=True)
class Centroid(MeanUtility, PoolStrategy):
    """Every hypothesis against the averages of clusters of references.

    Costs n * k evaluations, and k-means on the embeddings of the references.

    Args:
        metric: the metric that judges hypotheses, which must average references and have
            vectors (embeddings).
        centroids: maximum number of clusters.
        iterations: maximum number of k-means iterations.
        seed: seed of the initial centroids.

    Raises:
        InputError: if the metric lacks one of these abilities.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.Centroid("chrf")
    Traceback (most recent call last):
    minrisk.InputError: strategy 'centroid' needs a metric that has vectors to cluster ...
    """

    name = "centroid"
    papers = ("Deguchi et al. 2024",)
    cost = "n · k pairs, k = centroids, and k-means of m references"
    tried = Budget("centroids", "references")
    metric: AnyMetric = metric_option(needs=Ability.AVERAGES | Ability.VECTORS)
    centroids: int = option(16, ge=1)
    iterations: int = option(10, ge=0)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.utility_of_averages(self._groups(pool)))

    def _groups(self, pool: Pool[Any]) -> Groups:
        weights = pool.segment.weights
        if self.centroids == 1:
            return Groups(np.zeros(weights.size, np.intp), weights)
        rng = segment_rng(self.seed, pool.segment)
        labels = kmeans(pool.vectors(), weights, self.centroids, self.iterations, rng)
        return Groups(labels, weights)


_ROUNDING = {4: 1e-5, 8: 1e-12}  # bytes per float -> relative error of a distance


def kmeans(points: Points, weights: Floats, count: int, iterations: int,
           rng: np.random.Generator) -> Ints:
    """(N,) the cluster of each point; there are `count` clusters, or fewer if points are equal."""
    points = points - points.mean(0)  # centred, because large norms would cancel digits
    labels = _nearest(points, points[_seeds(points, weights, count, rng)])
    for _ in range(iterations):
        before, labels = labels, _nearest(points, _means(points, weights, labels))
        if np.array_equal(before, labels):
            break
    return labels


def _seeds(points: Points, weights: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """k-means++: seeds are sampled by weight times squared distance to the nearest seed."""
    chosen: list[int] = []
    probability = weights
    distance = np.full(len(points), np.inf)
    while len(chosen) < count and probability.any():
        chosen.append(int(rng.choice(len(points), p=probability / probability.sum())))
        nearest = _on_host(_squared_distances(points, points[chosen[-1:]])[:, 0])
        distance = np.minimum(distance, nearest)
        probability = weights * distance
    return chosen


def _means(points: Points, weights: Floats, labels: Ints) -> Points:
    """(G, D) weighted means of the clusters; plain means for clusters without weight."""
    member = labels == np.arange(labels.max() + 1)[:, None]  # (G, N)
    weighted = member * weights
    share = np.where(weighted.any(axis=1, keepdims=True), weighted, member)
    share = share / share.sum(axis=1, keepdims=True)
    return (share if isinstance(points, np.ndarray) else points.new_tensor(share)) @ points


def _nearest(points: Points, centroids: Points) -> Ints:
    """(N,) the nearest centroid of each point, renumbered without empty clusters."""
    nearest = _on_host(_squared_distances(points, centroids).argmin(1))
    return Distinct.from_labels(nearest, len(centroids)).inverse


def _squared_distances(points: Points, others: Points) -> Points:
    """(N, G) squared distances; those within rounding error are 0."""
    norms = (points * points).sum(1)[:, None] + (others * others).sum(1)
    distances = norms - 2 * points @ others.T
    return distances * (distances > _ROUNDING[points.itemsize] * norms)


def _on_host(values: Points) -> Any:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
