"""`minrisk.decode`: from a list of samples to the best one, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from minrisk.adapters import as_metric
from minrisk.errors import InputError
from minrisk.metric import AnyMetric
from minrisk.registry import STRATEGIES
from minrisk.segment import Ranking, Segment
from minrisk.strategy import Strategy

METRIC, STRATEGY = "chrf", "standard"  # unless told otherwise


def make_strategy(strategy: str, metric: str | AnyMetric = METRIC, **options: Any) -> Strategy:
    """A strategy by name; options are the fields of its dataclass (`minrisk strategies`)."""
    made: Strategy = STRATEGIES.make(strategy, metric=as_metric(metric), **options)
    return made


def decode(
    hypotheses: Sequence[str],
    references: Sequence[str] | None = None,
    source: str | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    metric: str | AnyMetric | None = None,
    strategy: str | Strategy = STRATEGY,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by expected utility over the references (themselves unless given).

    The metric is chrF unless given; a strategy that is no name has its metric and options already.
    """
    chosen = named_or_made(strategy, metric, options)
    return chosen.rank([Segment(hypotheses, references, source, weights)])[0]


def named_or_made(strategy: str | Strategy, metric: str | AnyMetric | None,
                  options: dict[str, Any]) -> Strategy:
    """A strategy by name with its metric and options, or one that has them."""
    if isinstance(strategy, str):
        return make_strategy(strategy, METRIC if metric is None else metric, **options)
    if metric is not None or options:
        given = ", ".join([*(["metric"] if metric is not None else []), *options])
        raise InputError(f"{given}: already part of the strategy {strategy.name!r}; "
                         "give the strategy by name, or these to its constructor")
    return strategy
