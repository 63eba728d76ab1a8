"""Names for metrics and strategies: "module:object", imported only when somebody asks for one.

A package adds its own through the entry-point groups `minrisk.metrics` and `minrisk.strategies`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from minrisk.errors import InputError, MinriskError, unknown


@dataclass(frozen=True)
class Registry:
    kind: str
    group: str  # of entry points
    builtin: dict[str, str] = field(default_factory=dict)

    def plugins(self) -> dict[str, str]:
        from importlib.metadata import entry_points  # here, for it is slow to import

        found = entry_points(group=self.group)
        return {point.name: point.value for point in found}

    def names(self) -> list[str]:
        return [*self.builtin, *(name for name in self.plugins() if name not in self.builtin)]

    def get(self, name: str) -> type:
        """The class behind a name. Built-in names win, so that no plug-in changes a result."""
        target = self.builtin.get(name) or self.plugins().get(name)
        if target is None:
            raise unknown(self.kind, name, self.names())
        module, _, attribute = target.partition(":")
        try:
            found: type = getattr(import_module(module), attribute)
        except MinriskError:
            raise
        except Exception as error:  # somebody else's code: it may fail in any way
            raise InputError(f"{self.kind} {name!r} cannot be loaded from {target!r}: {error}; "
                             "reinstall the package that brings it") from error
        if not dataclasses.is_dataclass(found):
            raise InputError(f"{self.kind} {name!r} is {found!r}, wanted a dataclass")
        return found

    def make(self, name: str, /, **options: Any) -> Any:
        """An instance; options are the fields of its dataclass."""
        cls = self.get(name)
        known = {f.name: f for f in dataclasses.fields(cls)}
        for option in options:
            if option not in known:
                raise unknown(f"option of {self.kind} {name!r}:", option, known)
        for option, f in known.items():
            if option not in options and not _has_default(f):
                flag = option.replace("_", "-")
                raise InputError(f"{self.kind} {name!r} needs the option {option} (--{flag})")
        return cls(**options)


def _has_default(f: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return f.default is not missing or f.default_factory is not missing


METRICS = Registry("metric", "minrisk.metrics", {
    "chrf": "minrisk.metrics.chrf:ChrF",
    "comet": "minrisk.metrics.comet:Comet",
    "comet-qe": "minrisk.metrics.comet:CometQE",
    "comet-kiwi": "minrisk.metrics.comet.unified:CometKiwi",
    "xcomet": "minrisk.metrics.comet.unified:XComet",
    "bertscore": "minrisk.metrics.bertscore:BertScore",
    "metricx": "minrisk.metrics.metricx:MetricX",
    "bleurt": "minrisk.metrics.bleurt:Bleurt",
})

STRATEGIES = Registry("strategy", "minrisk.strategies", {
    "standard": "minrisk.strategies.standard:Standard",
    "n-by-s": "minrisk.strategies.n_by_s:NByS",
    "aggregate": "minrisk.strategies.aggregate:Aggregate",
    "aggregate-to-fine": "minrisk.strategies.cascade:AggregateToFine",
    "coarse-to-fine": "minrisk.strategies.cascade:CoarseToFine",
})
