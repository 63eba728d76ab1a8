"""Centroid-based MBR: references that mean nearly the same are averaged together.

Deguchi et al. 2024, Centroid-Based Efficient Minimum Bayes Risk Decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.kmeans import kmeans
from minrisk.metric import AnyMetric
from minrisk.options import option
from minrisk.pool import Pool, bind
from minrisk.segment import Ranking, Segment
from minrisk.strategy import segment_rng


@dataclass(frozen=True)
class Centroid:
    """every hypothesis against the averages of clusters of references (Deguchi et al. 2024)

    Costs n * k evaluations, and k-means on the vectors of the references.
    """

    name: ClassVar[str] = "centroid"
    metric: AnyMetric
    centroids: int = option(16, help="how many clusters, at most")
    iterations: int = option(10, help="of k-means, at most")
    seed: int = option(0, help="of the first centroids")

    def __post_init__(self) -> None:
        if self.centroids < 1:
            raise InputError(f"{self.centroids} centroids; one at least is wanted")

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
