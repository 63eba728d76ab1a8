"""Reranking by quality estimation, without references (Fernandes et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options
from minrisk._core.segment import Ranking, Segment


@dataclass(frozen=True)
class Rerank(Options):
    """ranks by quality estimation from the source, without references

    Costs one evaluation per hypothesis.

    Args:
        metric: the metric that judges by the source alone, its name or class.

    Raises:
        InputError: if the metric needs references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.Rerank("comet-kiwi").metric.name
    'comet-kiwi'
    """

    name: ClassVar[str] = "rerank"
    papers: ClassVar[tuple[str, ...]] = ("Fernandes et al. 2022",)
    cost: ClassVar[str] = "n estimates of quality"
    metric: AnyMetric = metric_option(needs=Ability.QUALITY)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [pool.ranking(pool.quality()) for pool in bind(self.metric, segments)]
