"""What a metric around another one takes from it."""

from __future__ import annotations

from minrisk.metric import AnyMetric


class Around:
    """A metric whose scores are made of those of one other."""

    metric: AnyMetric

    @property
    def needs_source(self) -> bool:
        return getattr(self.metric, "needs_source", False)

    @property
    def is_error(self) -> bool:
        return getattr(self.metric, "is_error", False)
