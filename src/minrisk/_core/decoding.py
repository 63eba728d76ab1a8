"""`minrisk.decode`: from a list of samples to the best one, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy.typing as npt

from minrisk._core.adapters import as_metric, named_metric
from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options
from minrisk._core.recipe import Recipe
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, as_strategy

METRIC, STRATEGY = "chrf", "standard"  # unless given

MetricName = Literal[
    "chrf", "bleu", "comet", "comet-qe", "comet-kiwi", "xcomet", "bertscore", "metricx",
    "metricx-qe", "bleurt", "ter", "rouge", "rouge-l", "edit", "exact-match", "json-match",
    "symbolic", "embedding", "mqm", "python", "command", "combined", "symmetric", "cached"]
StrategyName = Literal[
    "standard", "n-by-s", "aggregate", "aggregate-to-fine", "coarse-to-fine", "prune", "adaptive",
    "centroid", "low-rank", "control-variate", "rerank", "quality-then-mbr", "diverse", "medoids"]
# what a metric, or a strategy, may be given as; names carry arguments too, and plug-ins have others
MetricLike = MetricName | str | AnyMetric | type[Any] | Callable[[str, str], float]
StrategyLike = StrategyName | str | Strategy | type[Any]


def make_metric(name: MetricName | str, /, **options: Any) -> AnyMetric:
    """A metric by its name and options, as `minrisk list metrics` lists them.

    The same name and options give the same object, so that a loop loads a model once; the last 4
    stay loaded.

    Args:
        name: as in `--metric`: "chrf", "comet:FOLDER", "chrf*0.5+comet", "cached:bleurt".
        options: the fields of its dataclass; those of a metric inside it by its name, as in
            `chrf__order=4`.

    Raises:
        InputError: if there is no such name or option, or a value is wrong.

    >>> make_metric("chrf", word_order=2)
    ChrF(order=6, word_order=2, beta=2.0, whitespace=False, lowercase=False, eps_smoothing=False)
    """
    return named_metric(name, **options)


def make_strategy(strategy: StrategyName | str, metric: MetricLike = METRIC,
                  **options: Any) -> Strategy:
    """A strategy by its name, metric and options, as `minrisk list strategies` lists them.

    Args:
        strategy: as in `--strategy`.
        metric: a metric, its name or class, or a function of hypothesis and reference.
        options: the fields of its dataclass.

    Raises:
        InputError: if there is no such name or option, a value is wrong, or the metric cannot do
            what the strategy needs.

    >>> make_strategy("n-by-s", "bleu", subset=16).subset
    16
    """
    made: Strategy = STRATEGIES.make(strategy, metric=as_metric(metric), **options)
    return made


def decode(
    hypotheses: Sequence[str],
    references: Sequence[str] | None = None,
    source: str | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    counts: npt.ArrayLike | None = None,
    index: int = 0,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by their expected utility over the references.

    A loop over segments that passes their `index` gives what `minrisk decode` gives for a file,
    also where a strategy draws at random. A metric that is named is made once and stays loaded
    (the last 4 do).

    Args:
        hypotheses: the texts that may be chosen, usually samples of a model.
        references: the texts they are judged by; the hypotheses themselves unless given.
        source: what all of them are made from, for metrics that need it.
        weights: one per reference; equal unless given.
        counts: how many equal samples each hypothesis stands for; 1 unless given.
        index: the segment's place in the input, from which its random stream follows.
        metric: a metric, its name or class, or a function of hypothesis and reference; chrF unless
            given. `make_metric` gives one by name with options.
        strategy: a strategy, its name or class; every hypothesis against every reference unless
            given.
        options: of a strategy that is given by name or class.

    Returns:
        All hypotheses, best first: `text` is the best, `utility` are their expected scores.

    Raises:
        InputError: if an argument makes no sense, or metric and strategy do not fit.
        MissingExtra: if the metric needs a package that is not installed.

    >>> samples = ["The cat sat on the mat.", "A cat sat on the mat.", "The dog sat."]
    >>> decode(samples).text
    'The cat sat on the mat.'
    >>> decode(samples, metric=lambda hyp, ref: len(set(hyp) & set(ref)), counts=[1, 1, 9]).best
    2
    >>> decode(samples, strategy="aggregate-to-fine", keep=2).order.tolist()
    [0, 1, 2]
    """
    segment = Segment(hypotheses, references, source, weights, index, counts)
    chosen = chosen_strategy(strategy, metric, options)
    (ranking,) = chosen.rank([segment])
    return add_texts(ranking, segment, chosen)


def add_texts(ranking: Ranking, segment: Segment, strategy: Strategy) -> Ranking:
    """The ranking with the texts that it is of, and how it was made."""
    return replace(ranking, hypotheses=segment.hypotheses, signature=signature(strategy))


def chosen_strategy(strategy: StrategyLike | None, metric: MetricLike | None,
                    options: dict[str, Any], default: str = STRATEGY) -> Strategy:
    """A strategy by name or class with its metric and options, or one that has them."""
    if strategy is None or isinstance(strategy, str):
        return make_strategy(strategy or default, METRIC if metric is None else metric, **options)
    if isinstance(strategy, type) and issubclass(strategy, Options):
        given = options | {"metric": as_metric(METRIC if metric is None else metric)}
        return as_strategy(Recipe("strategy", strategy.__name__, strategy).make(given))
    found = as_strategy(strategy)
    if metric is not None or options:
        named = ", ".join([*(["metric"] if metric is not None else []), *options])
        raise InputError(f"{named}: already part of the strategy {found.name!r}; "
                         "give the strategy by name, or these to its constructor")
    return found
