"""One line that says how a result was made: every field of the frozen configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from minrisk.version import __version__


def signature(config: Any, kind: str = "strategy", **more: Any) -> str:
    """As sacreBLEU's scores carry one, e.g. `strategy:standard|metric:chrf|metric.order:6|...`."""
    parts = settings(config, kind) | more | {"version": __version__}
    return "|".join(f"{key}:{_show(value)}" for key, value in parts.items())


def settings(config: Any, kind: str = "strategy") -> dict[str, Any]:
    """Every field that can change a result, by name."""
    return {kind: config.name, **dict(_fields(config, ""))}


def _fields(config: Any, prefix: str) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for f in dataclasses.fields(config):
        if not f.metadata.get("matters", True):
            continue
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
