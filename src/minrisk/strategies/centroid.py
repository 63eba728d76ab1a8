"""Centroid-based MBR: references with similar embeddings are averaged together.

Deguchi et al. 2024, Centroid-Based Efficient Minimum Bayes Risk Decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.batch import bind
from minrisk._core.groups import Groups
from minrisk._core.kmeans import kmeans
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Budget, MeanUtility, segment_rng


@dataclass(frozen=True)
class Centroid(MeanUtility, Options):
    """every hypothesis against the averages of clusters of references

    Costs n * k evaluations, and k-means on the embeddings of the references.

    Args:
        metric: the metric that judges hypotheses, which must average references and have
            vectors (embeddings).
        centroids: largest number of clusters.
        iterations: largest number of k-means iterations.
        seed: seed of the first centroids.

    Raises:
        InputError: if the metric lacks one of these abilities.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.Centroid("chrf")
    Traceback (most recent call last):
    minrisk.InputError: strategy 'centroid' needs a metric that has vectors to cluster ...
    """

    name: ClassVar[str] = "centroid"
    papers: ClassVar[tuple[str, ...]] = ("Deguchi et al. 2024",)
    cost: ClassVar[str] = "n · k pairs, k = centroids, and k-means of m references"
    tried: ClassVar[Budget] = Budget("centroids", "references")
    metric: AnyMetric = metric_option(needs=Ability.AVERAGES | Ability.VECTORS)
    centroids: int = option(16, ge=1, help="largest number of clusters")
    iterations: int = option(10, ge=0, help="largest number of k-means iterations")
    seed: int = option(0, ge=0, help="seed of the first centroids")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [pool.ranking(pool.utility(self._groups(pool)))
                for pool in bind(self.metric, segments)]

    def _groups(self, pool: Pool[Any]) -> Groups:
        weights = pool.segment.weights
        if self.centroids == 1:
            return Groups(np.zeros(weights.size, np.intp), weights)
        rng = segment_rng(self.seed, pool.segment)
        labels = kmeans(pool.vectors(), weights, self.centroids, self.iterations, rng)
        return Groups(labels, weights)
