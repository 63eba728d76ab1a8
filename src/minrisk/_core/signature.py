"""Signatures: one line with every option that can change a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from minrisk._core.options import labels, owner
from minrisk._core.registry import label_of
from minrisk.version import __version__


class Signature(str):
    """A signature; `brief` has the version and only the options that differ from their defaults."""

    brief: str


def signature(config: Any, kind: str = "strategy", **more: Any) -> Signature:
    """Return the signature of a strategy: a line with all options that can change a result.

    The format is that of sacreBLEU.

    Args:
        config: a strategy, or with another `kind` any dataclass with a name.
        kind: the first key.
        more: further keys and values, added at the end.

    Returns:
        Keys and values, with the version of minrisk at the end.

    >>> import minrisk
    >>> print(signature(minrisk.Standard("exact-match")).partition("|metric.pattern")[0])
    strategy:standard|metric:exact-match
    """
    return _with_brief(settings(config, kind) | more,
                       {kind: config.name, **dict(_fields(config, "", True))} | _changed(more))


def metric_signature(metric: Any, **more: Any) -> str:
    """The signature of scores by a metric, such as `nrefs:1|order:6|word_order:0|...`."""
    return join(more | dict(_fields(metric, "")))


def parts_signature(**parts: Any) -> Signature:
    """The signature of several named components, such as `metric:chrf|metric.order:6|seed:0`."""
    changed = _changed(parts)
    return _with_brief(
        {key: v for name, part in parts.items() for key, v in _pairs(name, part)},
        {key: v for name, part in changed.items() for key, v in _pairs(name, part, True)})


def settings(config: Any, kind: str = "strategy") -> dict[str, Any]:
    """The options that can change a result, by name."""
    return {kind: config.name, **dict(_fields(config, ""))}


def choose_alike(one: str, other: str) -> bool:
    """Whether two signatures name the same strategy and the same metric with the same options.

    >>> import minrisk
    >>> chrf, bleu = (signature(minrisk.Standard(name)) for name in ("chrf", "bleu"))
    >>> choose_alike(chrf, chrf + "|weights:uniform"), choose_alike(chrf, bleu)
    (True, False)
    """
    return choice_settings(parts_of(one)) == choice_settings(parts_of(other))


def choice_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The strategy and its metrics with their options; a strategy that measures another is not it.
    """
    chosen = {}
    for name, value in settings.items():
        while name.startswith("strategy."):  # of the strategy inside
            name = name.removeprefix("strategy.")
        if name == "strategy" or "metric" in name.split("."):
            chosen[name] = value
    return chosen


def parts_of(text: str) -> dict[str, str]:
    """The keys and values of a signature."""
    return dict(part.partition(":")[::2] for part in text.split("|"))


def _fields(config: Any, prefix: str, changed: bool = False) -> list[tuple[str, Any]]:
    """The fields that can change a result; with `changed`, only those that are not defaults."""
    pairs: list[tuple[str, Any]] = []
    if not dataclasses.is_dataclass(config):
        return pairs
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if f.metadata.get("transparent"):  # an adapter: use the fields of the adapted object
            pairs += _fields(value, prefix, changed)
        elif f.metadata.get("inner"):  # names of inner metrics are part of the owner's name
            pairs += _inner_fields(value if isinstance(value, tuple) else (value,), prefix, changed)
        elif f.metadata.get("affects_results", True) and not (changed and value == f.default):
            # the key `version` without a prefix is the version of minrisk
            first = prefix or (f"{owner(config)}." if f.name == "version" else "")
            pairs += _pairs(first + f.name, value, changed)
    return pairs


def _pairs(name: str, value: Any, changed: bool = False) -> list[tuple[str, Any]]:
    if not dataclasses.is_dataclass(value):
        return [(name, value)]
    # a metric, or a stage
    return [(name, getattr(value, "name", type(value).__name__)),
            *_fields(value, f"{name}.", changed)]


def _inner_fields(metrics: tuple[Any, ...], prefix: str, changed: bool) -> list[tuple[str, Any]]:
    named = labels(label_of(metric.name) for metric in metrics)
    return [pair for label, metric in zip(named, metrics, strict=True)
            for pair in _fields(metric, f"{prefix}{label}.", changed)]


def _changed(more: dict[str, Any]) -> dict[str, Any]:
    """Further values without the usual defaults of options."""
    return {key: value for key, value in more.items() if _show(value) not in ("auto", "no", "0")}


def _with_brief(whole: dict[str, Any], changed: dict[str, Any]) -> Signature:
    made = Signature(join(whole))
    made.brief = join(changed)
    return made


def join(parts: dict[str, Any], version: str = __version__) -> str:
    """Keys and values in the format of sacreBLEU, the version last."""
    return "|".join(f"{key}:{_show(v)}" for key, v in (parts | {"version": version}).items())


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "auto" if value is None else str(value).replace("\n", "\\n")  # e.g. in a prompt
