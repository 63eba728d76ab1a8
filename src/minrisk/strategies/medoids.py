"""k-medoids MBR: the set of hypotheses of which, for each reference, one is near.

KMBR of Jinnai et al. 2024a, Generating Diverse and High-Quality Texts by Minimum Bayes Risk
Decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats, Ints
from minrisk._core.batch import bind
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MeanUtility
from minrisk.strategies.diverse import SIZE_HELP, distinct_rows


@dataclass(frozen=True)
class Medoids(MeanUtility, Options):
    """exact, with a set of k medoids of the references first (KMBR)

    The set maximises the mean, over references, of the best score of a member: it is chosen
    greedily, then improved by exchanges. Costs n * m evaluations.

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        size: size of the set, if there are as many different texts.
        exchanges: largest number of rounds of exchanges.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Medoids("chrf", size=2))
    >>> [samples[row] for row in ranking.order[:2]]
    ['the cat sat', 'cats sit']
    """

    name: ClassVar[str] = "medoids"
    papers: ClassVar[tuple[str, ...]] = ("Jinnai et al. 2024a",)
    cost: ClassVar[str] = "n · m pairs"
    approximates_standard: ClassVar[bool] = False
    metric: AnyMetric = metric_option()
    size: int = option(4, ge=1, help=SIZE_HELP)
    exchanges: int = option(10, ge=0, help="largest number of rounds of exchanges")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, pool: Pool[Any]) -> Ranking:
        distinct, inverse = pool.distinct_hypotheses()
        columns, mass = pool.distinct_references()
        scores = distinct.scores(columns)
        ranking = pool.ranking((scores @ mass)[inverse])
        different = distinct_rows(pool)
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
    """The hypothesis that improves the set of the others most, and the value of the set with it."""
    near = scores[others].max(axis=0, initial=-np.inf)  # (R,)
    value = np.maximum(scores, near) @ mass
    value[others] = np.nan  # which ranks last
    best = Ranking.of(value).best
    return best, float(value[best])


def _value(scores: Floats, mass: Floats, chosen: list[int]) -> float:
    return float(scores[chosen].max(axis=0) @ mass)
