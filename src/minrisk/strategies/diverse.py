"""Diverse MBR: a set of good hypotheses that differ.

DMBR of Jinnai et al. 2024a, Generating Diverse and High-Quality Texts by Minimum Bayes Risk
Decoding, chosen greedily.
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

SIZE_HELP = "size of the set, if there are as many different texts"


@dataclass(frozen=True)
class Diverse(MeanUtility, Options):
    """exact, with a diverse set of good hypotheses first (DMBR)

    The set maximises, greedily, the sum of its utilities minus `diversity` / size times the sum of
    the scores of its members against each other. Costs n * m + 2 * k * n evaluations.

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        size: size of the set, if there are as many different texts.
        diversity: weight of the similarity within the set.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> ranking = minrisk.decode(samples, strategy=minrisk.Diverse("chrf", size=2))
    >>> [samples[row] for row in ranking.order[:2]]
    ['the cat sat', 'cats sit']
    """

    name: ClassVar[str] = "diverse"
    papers: ClassVar[tuple[str, ...]] = ("Jinnai et al. 2024a",)
    cost: ClassVar[str] = "n · m pairs, and 2 · k · n similarities, k = size"
    metric: AnyMetric = metric_option()
    size: int = option(4, ge=1, help=SIZE_HELP)
    diversity: float = option(1.0, help="weight of the similarity within the set")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, pool: Pool[Any]) -> Ranking:
        utility = pool.utility()
        different = distinct_rows(pool)
        chosen = self._chosen(pool.keep(different), utility[different])
        return pool.ranking(utility).first(different[chosen])

    def _chosen(self, pool: Pool[Any], utility: Floats) -> list[int]:
        gain, among = utility.copy(), pool.among_hypotheses()
        chosen: list[int] = []
        while len(chosen) < min(self.size, gain.size):
            chosen.append(Ranking.of(gain).best)
            gain -= self.diversity / self.size * _similarity(among, chosen[-1])
            gain[chosen] = np.nan  # which ranks last
        return chosen


def distinct_rows(pool: Pool[Any]) -> Ints:
    """The rows of the distinct hypotheses: the first one of each text."""
    return np.sort(np.unique(pool.hyp_rows, return_index=True)[1])


def _similarity(among: Pool[Any], row: int) -> Floats:
    """(H,) scores of all hypotheses against one, plus those of that one against all."""
    one = np.array([row])
    both: Floats = among.scores(one)[:, 0] + among.keep(one).scores()[0]
    return both
