"""Metrics that wrap other metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minrisk._core.arrays import Floats
from minrisk._core.registry import inside
from minrisk.plugins import AnyMetric, DerivedMetric, Segment, Traits


class WrapperMetric(DerivedMetric[Any]):
    """A metric that computes its scores from those of one inner metric."""

    kind: ClassVar[str]  # the beginning of its name
    metric: AnyMetric

    @property
    def name(self) -> str:
        return f"{self.kind}:{inside(self.metric.name)}"

    @property
    def traits(self) -> Traits:
        return Traits.combined([self.metric])

    def agreement(self, scores: Floats, whole: Floats) -> Floats:
        return self.metric.agreement(scores, whole)

    def features(self, texts: Sequence[str]) -> Any:
        return self.metric.features(texts)

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> Any:
        return self.metric.segment_features(segment, texts)

    def as_given(self, refs: Any) -> Any:
        return self.metric.as_given(refs)
