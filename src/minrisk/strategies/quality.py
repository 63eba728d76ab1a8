"""Strategies that use the quality of each hypothesis, alone or with its expected utility.

Reranking by quality estimation, and MBR among the best by it (Fernandes et al. 2022; comet-mbr's
--rerank_top_k); MBR-BoN, best of n by a reward, regularised by MBR (Jinnai et al. 2025,
Regularized Best-of-N Sampling with Minimum Bayes Risk Objective for Language Model Alignment);
universal self-consistency, where a language model names the best of all hypotheses (Chen et al.
2023, Universal Self-Consistency for Large Language Model Generation), or writes one from them
(Khairi et al. 2025, Making, not Taking, the Best of N); rewards as weights of the
references (Astudillo et al. 2025, Optimal Policy Minimum Bayesian Risk).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats, Ints
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import (
    Budget,
    MeanUtility,
    PoolStrategy,
    WeightingStrategy,
)
from minrisk.strategies.cascade import UncountedStage, best_rows, exact_among


@dataclass(frozen=True)
class Rerank(PoolStrategy):
    """Ranks by quality estimation from the source, without references.

    Costs one evaluation per hypothesis.

    Args:
        metric: the quality-estimation metric, its name or class.

    Raises:
        InputError: if the metric needs references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.Rerank("comet-kiwi").metric.name
    'comet-kiwi'
    """

    name = "rerank"
    papers = ("Fernandes et al. 2022",)
    cost = "n estimates of quality"
    metric: AnyMetric = metric_option(needs=Ability.QUALITY)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.quality())


@dataclass(frozen=True)
class QualityThenMBR(Options):
    """Exact MBR among the best `keep` hypotheses by quality estimation.

    If the references are the samples, only the best `keep` are used as references, too, as in
    comet-mbr: this costs k * k evaluations, and n quality estimates. Separate references are all
    used, which costs k * m evaluations.

    Args:
        metric: the metric, its name or class, or a function.
        quality: the quality-estimation metric, which needs only the source.
        keep: number of distinct hypotheses in the second stage [default: 20, or all if fewer].
        leave_self_out: skip the pair of a hypothesis with itself.

    Raises:
        InputError: if the second metric needs references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.QualityThenMBR("chrf", "comet-kiwi", keep=16).keep
    16
    """

    name = "quality-then-mbr"
    papers = ("Fernandes et al. 2022",)
    cost = "n estimates of quality, and k · k pairs, k = keep"
    tried = Budget("keep", "hypotheses")
    metric: AnyMetric = metric_option()
    quality: AnyMetric = metric_option(needs=Ability.QUALITY)
    keep: int | None = option(None, ge=1)
    leave_self_out: bool = option(False)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        first = UncountedStage(Rerank(self.quality)).rank(segments)
        kept = [best_rows(ranking, segment, self.keep)
                for ranking, segment in zip(first, segments, strict=True)]
        return exact_among(kept, first, bind(self.metric, segments), self.leave_self_out)


@dataclass(frozen=True)
class MBRBoN(Options):
    """Reward + beta * MBR utility: best-of-n that stays close to the other samples.

    The reward is a quality estimate from the source alone. Costs n quality estimates and n * m
    pairs. With `beta` 0 it equals `rerank`; with a large one, standard MBR.

    Args:
        metric: the metric of the MBR utility, its name or class, or a function.
        quality: the reward: a metric that needs only the source.
        beta: weight of the MBR utility relative to the reward; depends on the scales of both
            metrics.
        leave_self_out: skip the pair of a hypothesis with itself.

    Raises:
        InputError: if the second metric needs references.

    >>> import minrisk
    >>> minrisk.MBRBoN("chrf", "comet-kiwi", beta=0.01).beta
    0.01
    """

    name = "mbr-bon"
    papers = ("Jinnai et al. 2025",)
    cost = "n rewards, and n · m pairs"
    approximates_standard = False
    metric: AnyMetric = metric_option()
    quality: AnyMetric = metric_option(needs=Ability.QUALITY)
    beta: float = option(1.0, ge=0)
    leave_self_out: bool = option(False)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        rewards = [pool.quality() for pool in bind(self.quality, segments)]
        return [
            pool.ranking(reward + self.beta * pool.utility(leave_self_out=self.leave_self_out))
            for pool, reward in zip(bind(self.metric, segments), rewards, strict=True)
        ]

    def reference_scores(self, pool: Pool[Any], columns: Ints) -> Floats:
        """(H, columns) scores plus the reward, so that the means are the utilities."""
        [judged] = bind(self.quality, [pool.segment])
        scores: Floats = judged.quality()[:, None] + self.beta * pool.scores(columns)
        return scores


@dataclass(frozen=True)
class RewardWeighted(WeightingStrategy):
    """Weights the references of another strategy by exp(reward / beta).

    The weighted samples stand for those of the policy that is optimal for the reward and stays near
    the model (OP-MBRD). A reference that stands for a sample without an answer has the mean weight
    of the others. Costs an estimate of quality for each distinct reference.

    Args:
        strategy: the strategy that ranks.
        quality: the reward: a metric that needs only the source.
        beta: divisor of the rewards; with a large one, all references weigh the same.

    Raises:
        InputError: if the metric of the reward needs references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.RewardWeighted(minrisk.Standard("chrf"), "comet-kiwi", beta=0.1).name
    'standard'
    """

    papers = ("Astudillo et al. 2025",)
    quality: AnyMetric = metric_option(needs=Ability.QUALITY)
    beta: float = option(1.0, gt=0)

    def weighted(self, segments: Sequence[Segment]) -> list[Segment]:
        judged = [segment if segment.self_columns is not None else
                  Segment(list(dict.fromkeys(segment.references)), None, segment.source,
                          position=segment.position) for segment in segments]
        return [segment.weighted(self._weights(segment, pool)) for segment, pool
                in zip(segments, bind(self.quality, judged), strict=True)]

    def _weights(self, segment: Segment, judged: Pool[Any]) -> Floats:
        rewards = judged.quality()
        factors = np.exp((rewards - rewards.max()) / self.beta)
        by_text = dict(zip(judged.segment.hypotheses, factors.tolist(), strict=True))
        mean = float(factors.mean())
        found: Floats = segment.weights * [by_text.get(text, mean) for text in segment.references]
        return found


@dataclass(frozen=True)
class UniversalSelfConsistency(PoolStrategy):
    """A judge sees all hypotheses at once, and chooses the best.

    The chosen hypothesis has the utility 1 and the others 0, in the order of the samples. Distinct
    texts are shown once, with the number of equal samples.

    Args:
        metric: the metric that chooses, such as `judge`; or its name or class.

    Raises:
        InputError: if the metric cannot choose among all hypotheses; when it is used, if the answer
            names no hypothesis, or if the prompt is too long.

    >>> import minrisk
    >>> judge = minrisk.Judge("llama-3", endpoint="http://localhost:8000/v1")
    >>> minrisk.UniversalSelfConsistency(judge).name
    'universal-self-consistency'
    """

    name = "universal-self-consistency"
    papers = ("Chen et al. 2023",)
    cost = "one request"
    metric: AnyMetric = metric_option(needs=Ability.CHOICE)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        return pool.ranking(pool.choice())


@dataclass(frozen=True)
class Fuse(MeanUtility, PoolStrategy):
    """A judge writes one answer from all hypotheses; kept if it is as good as the best.

    One request shows the judge all distinct hypotheses, and asks for one answer made of them
    (Fusion-of-N). It is kept if its expected utility, by the metric against all references, is at
    least that of the best hypothesis; otherwise that is the answer. In a vote, it is kept if it has
    the answer of the majority.

    Args:
        metric: the metric that ranks hypotheses and the fused answer, its name or class, or a
            function.
        writer: the metric that writes, such as `judge`; or its name or class.

    Raises:
        InputError: if the writer cannot write; when it is used, if the prompt is too long.

    >>> import minrisk
    >>> judge = minrisk.Judge("llama-3", endpoint="http://localhost:8000/v1")
    >>> minrisk.Fuse("chrf", judge).name
    'fuse'
    """

    name = "fuse"
    papers = ("Khairi et al. 2025",)
    cost = "one request, n · m pairs, and m for the answer"
    approximates_standard = False
    proposes = True
    writer: AnyMetric = metric_option(needs=Ability.FUSION)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        ranking = pool.ranking(pool.utility())
        [read] = bind(self.writer, [pool.segment])
        text = read.fusion()
        reason = f"{self.writer.name} wrote no complete text" if text is None else None
        return pool.with_proposal(ranking, text, reason)
