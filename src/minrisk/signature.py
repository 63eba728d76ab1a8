"""One line that says how a result was made: every field of the frozen configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from minrisk.version import __version__


def signature(strategy: Any, **more: Any) -> str:
    """As sacreBLEU's scores carry one, e.g. `strategy:standard|metric:chrf|metric.order:6|...`."""
    pairs = [("strategy", strategy.name), *_fields(strategy, ""), *more.items(),
             ("version", __version__)]
    return _join(pairs)


def metric_signature(metric: Any, **more: Any) -> str:
    """The same for scores of a metric alone, e.g. `nrefs:1|order:6|word_order:0|...`."""
    pairs = [*more.items(), *_fields(metric, ""), ("version", __version__)]
    return _join(pairs)


def _join(pairs: list[tuple[str, Any]]) -> str:
    return "|".join(f"{key}:{_show(value)}" for key, value in pairs)


def _fields(config: Any, prefix: str) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if dataclasses.is_dataclass(value):  # a metric, or a stage
            pairs.append((prefix + f.name, getattr(value, "name", type(value).__name__)))
            pairs += _fields(value, f"{prefix}{f.name}.")
        else:
            pairs.append((prefix + f.name, value))
    return pairs


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "auto" if value is None else str(value)
