"""A metric in both directions: the mean of u(h, r) and u(r, h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import inner
from minrisk._core.arrays import Floats
from minrisk._core.metric import Ability, AnyMetric, Traits
from minrisk._core.recipe import inside
from minrisk.metrics._base import WrapperMetric


@dataclass(frozen=True)
class Symmetric(WrapperMetric):
    """the mean of both directions of a metric: --metric symmetric:NAME

    The score of a pair is the mean of u(h, r) and u(r, h); references cannot be averaged.

    Args:
        metric: the inner metric, by object, class or name.

    >>> import minrisk
    >>> symmetric = minrisk.Symmetric(minrisk.ChrF())
    >>> texts = symmetric.features(["the cat sat", "a cat"])
    >>> symmetric.scores(texts, texts).round(1)
    array([[100. ,  32.5],
           [ 32.5, 100. ]])
    """

    cost: ClassVar[str] = "twice that of its metric"
    metric: AnyMetric = inner(help="an inner metric, as in symmetric:edit")

    @property
    def name(self) -> str:
        return f"symmetric:{inside(self.metric.name)}"

    @property
    def traits(self) -> Traits:
        """Corpora have statistics where the metric's have; nothing can be averaged."""
        # on the way back, the reference is what is scored
        return replace(super().traits, ignores_references=False,
                       is_vote=self.metric.is_vote,
                       abilities=self.metric.abilities & Ability.CORPUS_STATISTICS)

    def answers(self, features: Any) -> list[str | None] | None:
        return self.metric.answers(features)

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        """(H, R)"""
        there = self.metric.scores(hyps, refs, source)
        back = there if hyps is refs else self.metric.scores(refs, hyps, source)
        result: Floats = (there + back.T) / 2
        return result

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 2 S) of both directions; on the way back every reference is a hypothesis."""
        there: Floats = self.metric.statistics(hyps, refs)
        back = [self.metric.statistics(own, [[hyp]] * len(own)).sum(axis=0)
                for hyp, own in zip(hyps, refs, strict=True)]
        return np.concatenate([there, np.reshape(back, there.shape)], axis=1)

    def corpus(self, statistics: Floats) -> float:
        return fmean(map(self.metric.corpus, np.split(statistics, 2)))
