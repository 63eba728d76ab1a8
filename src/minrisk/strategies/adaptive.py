"""Adaptive MBR: the best hypothesis is the medoid, found by correlated sequential halving.

Jinnai & Ariu 2024, Hyperparameter-Free Approach for Faster Minimum Bayes Risk Decoding; the
halving is that of Baharav & Tse 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.batch import bind
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Budget, MeanUtility, segment_rng, shuffled
from minrisk.strategies.race import Race


@dataclass(frozen=True)
class Adaptive(MeanUtility, Options):
    """keeps the better half at each step, with more references each time

    All hypotheses of a step are scored against the same references (hence "correlated") and keep
    the scores of earlier steps. Costs `budget` * n * m evaluations, or fewer if texts are equal;
    but every step adds at least one reference, and costs about 2 * n in all if `budget` is less.

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        budget: share of all pairs that may be evaluated.
        seed: seed of the order of references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.Adaptive("chrf", budget=1)).text
    'the cat sat'
    """

    name: ClassVar[str] = "adaptive"
    papers: ClassVar[tuple[str, ...]] = ("Jinnai & Ariu 2024",)
    cost: ClassVar[str] = "budget · n · m pairs, or about 2 · n if that is more"
    tried: ClassVar[Budget] = Budget("budget", "pairs")
    metric: AnyMetric = metric_option()
    budget: float = option(0.125, gt=0, le=1, help="share of all pairs that may be evaluated")
    seed: int = option(0, ge=0, help="seed of the order of references")

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self._rank(pool) for pool in bind(self.metric, segments)]

    def _rank(self, pool: Pool[Any]) -> Ranking:
        segment = pool.segment
        race = Race(pool, shuffled(segment, segment_rng(self.seed, segment)))
        race.halve(int(self.budget * race.left * len(segment.references)))
        return race.ranking()
