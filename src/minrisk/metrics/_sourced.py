"""Metrics whose scores depend on the source, always or by their options."""

from __future__ import annotations

from typing import ClassVar

from minrisk.errors import InputError
from minrisk.rows import WeightedRows


class Sourced:
    name: ClassVar[str]

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, which must be there; it and the others must be this metric's own."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        for features in (source, *others):
            features.check(self)
        return source
