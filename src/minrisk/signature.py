"""One line that says how a result was made: every field of the frozen configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from minrisk.version import __version__


def signature(strategy: Any, **more: Any) -> str:
    """As sacreBLEU's scores carry one, e.g. `strategy:standard|metric:chrf|metric.order:6|...`."""
    return _join([("strategy", strategy.name), *_fields(strategy, ""), *more.items()])


def metric_signature(metric: Any, **more: Any) -> str:
    """The same for scores of a metric alone, e.g. `nrefs:1|order:6|word_order:0|...`."""
    return _join([*more.items(), *_fields(metric, "")])


def parts_signature(**parts: Any) -> str:
    """The same for what is made of several, e.g. `metric:chrf|metric.order:6|...|seed:0`."""
    return _join([pair for name, value in parts.items() for pair in _pairs(name, value)])


def _fields(config: Any, prefix: str) -> list[tuple[str, Any]]:
    return [pair for f in dataclasses.fields(config)
            for pair in _pairs(prefix + f.name, getattr(config, f.name))]


def _pairs(name: str, value: Any) -> list[tuple[str, Any]]:
    if not dataclasses.is_dataclass(value):
        return [(name, value)]
    # a metric, or a stage
    return [(name, getattr(value, "name", type(value).__name__)), *_fields(value, f"{name}.")]


def _join(pairs: list[tuple[str, Any]]) -> str:
    return "|".join(f"{key}:{_show(value)}" for key, value in [*pairs, ("version", __version__)])


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "auto" if value is None else str(value)
