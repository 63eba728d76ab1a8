"""One line that says how a result was made: every field of the frozen configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from minrisk.options import labels
from minrisk.version import __version__


def signature(strategy: Any, **more: Any) -> str:
    """As sacreBLEU's scores carry one, e.g. `strategy:standard|metric:chrf|metric.order:6|...`."""
    pairs = [("strategy", strategy.name), *_fields(strategy, ""), *more.items(),
             ("version", __version__)]
    return "|".join(f"{key}:{_show(value)}" for key, value in pairs)


def describe(metric: Any) -> str:
    """The same for a metric by itself."""
    pairs = [("metric", metric.name), *_fields(metric, "metric."), ("version", __version__)]
    return "|".join(f"{key}:{_show(value)}" for key, value in pairs)


def _fields(config: Any, prefix: str) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if f.metadata.get("inner"):  # named by the owner's name already
            pairs += _inner_fields(value if isinstance(value, tuple) else (value,), prefix)
        elif dataclasses.is_dataclass(value):  # a metric, or a stage
            pairs.append((prefix + f.name, getattr(value, "name", type(value).__name__)))
            pairs += _fields(value, f"{prefix}{f.name}.")
        else:
            pairs.append((prefix + f.name, value))
    return pairs


def _inner_fields(metrics: tuple[Any, ...], prefix: str) -> list[tuple[str, Any]]:
    named = labels(metric.name.partition(":")[0] for metric in metrics)
    return [pair for label, metric in zip(named, metrics, strict=True)
            for pair in _fields(metric, f"{prefix}{label}.")]


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "auto" if value is None else str(value)
