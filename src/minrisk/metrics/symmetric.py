"""A metric in both directions: the mean of u(h, r) and u(r, h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minrisk.arrays import Floats
from minrisk.metric import AnyMetric
from minrisk.options import inner


@dataclass(frozen=True)
class Symmetric:
    """the mean of both directions of a metric: --metric symmetric:NAME"""

    metric: AnyMetric = inner(help="one, as in symmetric:edit")

    @property
    def name(self) -> str:
        return f"symmetric:{self.metric.name}"

    @property
    def needs_source(self) -> bool:
        return getattr(self.metric, "needs_source", False)

    @property
    def features_per_segment(self) -> bool:
        return getattr(self.metric, "features_per_segment", False)

    def features(self, texts: Sequence[str]) -> Any:
        return self.metric.features(texts)

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        """(H, R)"""
        there = self.metric.scores(hyps, refs, source)
        back = there if hyps is refs else self.metric.scores(refs, hyps, source)
        result: Floats = (there + back.T) / 2
        return result
