"""MBR among the best by quality estimation (Fernandes et al. 2022; comet-mbr's --rerank_top_k)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options, option
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import SELF_HELP, Budget
from minrisk.strategies.cascade import KEEP_HELP, UncountedStage, best_rows, rank_among
from minrisk.strategies.rerank import Rerank


@dataclass(frozen=True)
class QualityThenMBR(Options):
    """exact among the best `keep` hypotheses by quality estimation

    If the references are the samples, only the best `keep` are references too, as in comet-mbr:
    this costs k * k evaluations, and n quality estimates. Separate references are all used: k * m.

    Args:
        metric: the metric that judges hypotheses, its name or class, or a function.
        quality: the quality-estimation metric, which judges by the source alone.
        keep: number of distinct hypotheses that reach the second stage; 20, or all if fewer.
        leave_self_out: skip the pair of a hypothesis with itself.

    Raises:
        InputError: if the second metric needs references.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.QualityThenMBR("chrf", "comet-kiwi", keep=16).keep
    16
    """

    name: ClassVar[str] = "quality-then-mbr"
    papers: ClassVar[tuple[str, ...]] = ("Fernandes et al. 2022",)
    cost: ClassVar[str] = "n estimates of quality, and k · k pairs, k = keep"
    tried: ClassVar[Budget] = Budget("keep", "hypotheses")
    metric: AnyMetric = metric_option()
    quality: AnyMetric = metric_option(needs=Ability.QUALITY,
                                       help="metric that judges by the source alone")
    keep: int | None = option(None, ge=1, help=KEEP_HELP)
    leave_self_out: bool = option(False, help=SELF_HELP)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        first = UncountedStage(Rerank(self.quality)).rank(segments)
        kept = [best_rows(ranking, segment, self.keep)
                for ranking, segment in zip(first, segments, strict=True)]
        second = [rank_among(pool, rows, self.leave_self_out)
                  for pool, rows in zip(bind(self.metric, segments), kept, strict=True)]
        return [r.refine(k, f) for r, k, f in zip(first, kept, second, strict=True)]
