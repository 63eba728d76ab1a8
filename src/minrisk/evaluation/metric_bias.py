"""Metric bias: a metric overestimates outputs that were chosen by the same metric.

MBR optimises its metric and so exploits the metric's errors (Kovacs et al. 2024). Which metric
chose an output is known from its signature, or from the settings of its run, in a file beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from minrisk._core.errors import MinriskError, warn
from minrisk._core.metric import AnyMetric, required_abilities
from minrisk._core.options import inner_metrics
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.signature import parts_of
from minrisk.io.inputs import MANIFEST, OLD_MANIFEST
from minrisk.io.run_store import manifest_name

Origin = str | Mapping[str, Any]  # a signature, or the settings of a run


def warn_of_bias(origins: Mapping[str, Origin | None], *metrics: AnyMetric) -> None:
    """Warn about each system that is judged by a metric that chose it, according to its origin."""
    for system, origin in origins.items():
        warning = bias_warning(system, origin, *metrics)
        if warning is not None:
            warn(warning)


def bias_warning(system: str, origin: Origin | None, *metrics: AnyMetric) -> str | None:
    """The warning about a system that is judged by a metric that chose it; None if there is none.

    Args:
        system: the name of the system, for the message.
        origin: the signature of its rankings, or the settings of its run; None if unknown.
        metrics: the metrics that judge it.

    >>> import minrisk
    >>> ranking = minrisk.decode(["a cat", "cats"], metric="chrf*0.5+bleu")
    >>> print(bias_warning("mbr", ranking.signature, minrisk.BLEU()))
    mbr was chosen by bleu, which overestimates it (Kovacs et al. 2024); judge it by another ...
    >>> bias_warning("mbr", ranking.signature, minrisk.Ter())
    """
    shared = [shared_metrics(origin, metric) for metric in metrics]
    names = sorted({name for chosen in shared for name in chosen})
    return bias_message(system, names, has_other_judge=not all(shared)) if names else None


def shared_metrics(origin: Origin | None, metric: AnyMetric) -> list[str]:
    """The names of metrics that chose a system and that are also part of the given metric."""
    return [] if origin is None else sorted(_choosing(origin) & set(_own_names(metric)))


def bias_message(system: str, metrics: Iterable[str], has_other_judge: bool = False) -> str:
    """The warning about a system that these metrics both chose and judge."""
    advice = "" if has_other_judge else "; judge it by another metric too"
    return (f"{system} was chosen by {' and '.join(metrics)}, which overestimates it "
            f"(Kovacs et al. 2024){advice}")


def origin_of(path: str) -> dict[str, Any] | None:
    """The settings of the run that wrote an output, from the file beside it; None if unknown."""
    folder, name = os.path.split(path)
    for beside in (manifest_name(path), os.path.join(folder, MANIFEST),
                   os.path.join(folder, OLD_MANIFEST)):
        try:
            with open(beside, encoding="utf-8") as stream:
                manifest = json.load(stream)
            if manifest["finished"][name]["size"] == os.path.getsize(path):  # unchanged output
                return dict(manifest["settings"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
    return None


def _choosing(origin: Origin) -> set[str]:
    """The names of all metrics that chose, with wrappers and sums resolved, without options."""
    settings = parts_of(origin) if isinstance(origin, str) else origin
    fields = {"metric"}
    with suppress(MinriskError):  # the strategy's plug-in is not installed
        fields |= set(required_abilities(STRATEGIES.get(str(settings.get("strategy")))))
    named = [str(value) for key, value in settings.items()
             if key in fields or key.endswith(".metric")]
    return {name for given in named for name in _names(given)}


def _names(metric: str) -> Iterator[str]:
    """The names of the metrics that a composed name consists of."""
    try:
        recipe = METRICS.recipe(metric)
    except MinriskError:  # a function, or a metric that is not installed
        yield metric
        return
    yield from (part.name for _, part in recipe.owners() if not part.inner)


def _own_names(metric: AnyMetric) -> Iterator[str]:
    inside = inner_metrics(metric)
    if not inside:
        yield metric.name
    for part in inside:
        yield from _own_names(part)
