"""MBR inside the heaviest cluster of hypotheses (structure-conditional MBR, Eikema et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Ints
from minrisk._core.batch import as_batch
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk.strategies.cascade import UncountedStage, rank_among
from minrisk.strategies.standard import Standard
from minrisk.strategies.uncertain import THRESHOLD, clusters


@dataclass(frozen=True)
class Cluster(Options):
    """exact inside the heaviest cluster of similar hypotheses

    A second metric clusters the hypotheses, as `Uncertain` does: by their answers, or else each
    joins the first cluster with whose centre it agrees, or begins one. If the references are the
    samples, only those of the cluster are references: a choice by majority among structures or
    meanings, and then by utility. All separate references are used.

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        similarity: the metric that clusters them: an embedding of meanings or structures; answers
            (`exact-match`, `json-match`) or `outcomes`, for a vote whose winner is chosen by MBR;
            hypotheses without an answer do not vote.
        threshold: the minimum agreement of a hypothesis with the centre of its cluster: its score,
            as a share of the centre's score against itself.

    >>> import minrisk
    >>> samples = ["Yes.", "Yes!", "No, because of the rain.", "Yes, sure.", "No, it rains."]
    >>> strategy = minrisk.Cluster("chrf", minrisk.ExactMatch(r"Yes|No"))
    >>> minrisk.decode(samples, strategy=strategy).utility.round(1).tolist()
    [57.3, 56.2, nan, 59.1, nan]
    """

    name: ClassVar[str] = "cluster"
    papers: ClassVar[tuple[str, ...]] = ("Eikema et al. 2025",)
    cost: ClassVar[str] = "n · m similarities, and k · k pairs in a cluster of k"
    approximates_standard: ClassVar[bool] = False
    metric: AnyMetric = metric_option()
    similarity: AnyMetric = metric_option(help="metric that clusters hypotheses")
    threshold: float = option(THRESHOLD, ge=0, le=1,
                              help="minimum agreement of a hypothesis with its cluster's centre, "
                              "as a share of the centre's score against itself")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        batch = as_batch(segments)
        first = UncountedStage(Standard(self.similarity)).rank(batch)
        pools = zip(first, batch.pools(self.similarity), strict=True)
        kept = [self._heaviest(ranking, pool) for ranking, pool in pools]
        second = [rank_among(pool, rows)
                  for pool, rows in zip(batch.pools(self.metric), kept, strict=True)]
        return [r.refine(k, f) for r, k, f in zip(first, kept, second, strict=True)]

    def _heaviest(self, ranking: Ranking, pool: Pool[Any]) -> Ints:
        """The rows of the hypotheses in the heaviest cluster; of equal ones, in the best.

        Hypotheses without an answer, where the similarity is a vote, are in none; if all are, all
        are kept.
        """
        found = clusters(ranking, pool, self.threshold, not pool.metric.ignores_references)
        _, inverse = pool.distinct_hypotheses()
        heaviest = Ranking.of(found.mass).best if found.mass.size else -1
        rows = found.rows[found.labels == heaviest]
        return np.flatnonzero(np.isin(inverse, inverse[rows]))
