"""Metrics whose scores depend on the source, always or by their options."""

from __future__ import annotations

from minrisk._core.errors import InputError
from minrisk._core.metric import Metric
from minrisk._core.weighted_rows import WeightedRows


class Sourced(Metric[WeightedRows]):
    """A metric that checks whose features it gets."""

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, which must be there; it and the others must be this metric's own."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        for features in (source, *others):
            features.check(self)
        return source
