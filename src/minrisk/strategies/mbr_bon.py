"""MBR-BoN: best of n by a reward, kept near the other samples by their expected utility.

Jinnai et al. 2025, Regularized Best-of-N Sampling with Minimum Bayes Risk Objective
for Language Model Alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.arrays import Floats, Ints
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import SELF_HELP


@dataclass(frozen=True)
class MBRBoN(Options):
    """reward + beta * MBR utility: best of n that stays near the others

    The reward is a quality estimate by the source alone. Costs n quality estimates and n * m pairs.
    With `beta` 0 it is `rerank`; with a large one, standard MBR.

    Args:
        metric: the metric of the MBR utility, its name or class, or a function.
        quality: the reward: a metric that judges by the source alone.
        beta: factor of the MBR utility; it depends on the scales of the two metrics.
        leave_self_out: skip the pair of a hypothesis with itself.

    Raises:
        InputError: if the second metric needs references.

    >>> import minrisk
    >>> minrisk.MBRBoN("chrf", "comet-kiwi", beta=0.01).beta
    0.01
    """

    name: ClassVar[str] = "mbr-bon"
    papers: ClassVar[tuple[str, ...]] = ("Jinnai et al. 2025",)
    cost: ClassVar[str] = "n rewards, and n · m pairs"
    approximates_standard: ClassVar[bool] = False
    metric: AnyMetric = metric_option()
    quality: AnyMetric = metric_option(needs=Ability.QUALITY,
                                       help="reward: a metric that judges by the source alone")
    beta: float = option(1.0, ge=0, help="factor of the MBR utility, which is added to the reward")
    leave_self_out: bool = option(False, help=SELF_HELP)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        rewards = [pool.quality() for pool in bind(self.quality, segments)]
        return [
            pool.ranking(reward + self.beta * pool.utility(leave_self_out=self.leave_self_out))
            for pool, reward in zip(bind(self.metric, segments), rewards, strict=True)
        ]

    def reference_scores(self, pool: Pool[Any], columns: Ints) -> Floats:
        """(H, columns) of which the utilities are the means: the reward is in each of them."""
        [judged] = bind(self.quality, [pool.segment])
        scores: Floats = judged.quality()[:, None] + self.beta * pool.scores(columns)
        return scores
