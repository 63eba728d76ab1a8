"""What a metric around another one takes from it."""

from __future__ import annotations

from typing import Any

from minrisk._core.metric import AnyMetric, Metric


class Around(Metric[Any]):
    """A metric whose scores are made of those of one other."""

    metric: AnyMetric

    @property
    def needs_source(self) -> bool:
        return self.metric.needs_source

    @property
    def is_error(self) -> bool:
        return self.metric.is_error

    @property
    def loads_model(self) -> bool:
        return self.metric.loads_model

    def prepare(self) -> None:
        self.metric.prepare()
