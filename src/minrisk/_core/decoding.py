"""`minrisk.decode`, and metrics and strategies by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy.typing as npt

from minrisk._core.adapters import as_metric, as_sampler, given_scores, named_metric
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.metric import AnyMetric
from minrisk._core.names import MetricName, SamplerName, StrategyName
from minrisk._core.options import Bounds, Options, checked
from minrisk._core.registry import SAMPLERS, STRATEGIES, Recipe
from minrisk._core.sampler import Sampler
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, as_strategy, check_rankings

METRIC, STRATEGY = "chrf", "standard"  # the defaults
SAMPLER, ENDPOINT_SAMPLER = "hf", "openai"  # the defaults without an endpoint, and with one
_SHARE = Bounds(ge=0, le=1)

# str, because names may have arguments (comet:FOLDER) and plug-ins add further names
MetricLike = MetricName | str | AnyMetric | type[Any] | Callable[[str, str], float]
StrategyLike = StrategyName | str | Strategy | type[Any]
SamplerLike = SamplerName | str | Sampler | Callable[[Any, int], Iterable[Any]]


def default_sampler(endpoint: str | None) -> str:
    """The name of the default sampler."""
    return SAMPLER if endpoint is None else ENDPOINT_SAMPLER


def make_metric(name: MetricName | str, /, **options: Any) -> AnyMetric:
    """Create a metric from its name and options, as `minrisk list metrics` shows them.

    The last 4 metrics are cached: the same name and options give the same object, so that a loop
    loads a model once.

    Args:
        name: "chrf", "comet:FOLDER", "chrf*0.5+comet", "cached:bleurt" and so on.
        options: the fields of its dataclass; options of an inner metric are prefixed with its
            name, as in `chrf__order=4`.

    Returns:
        The metric.

    Raises:
        InputError: if there is no such name or option, or a value is wrong.

    >>> make_metric("chrf", word_order=2)
    ChrF(order=6, word_order=2, beta=2.0, whitespace=False, lowercase=False, eps_smoothing=False)
    """
    return named_metric(name, **options)


def make_strategy(strategy: StrategyName | str, metric: MetricLike = METRIC,
                  **options: Any) -> Strategy:
    """Create a strategy from its name, metric and options (see `minrisk list strategies`).

    Args:
        strategy: "standard", "n-by-s", "prune" and so on.
        metric: a metric, its name or class, or a function of hypothesis and reference.
        options: the fields of its dataclass.

    Returns:
        The strategy.

    Raises:
        InputError: if there is no such name or option, a value is wrong, or the metric lacks an
            ability that the strategy needs.

    >>> make_strategy("n-by-s", "bleu", subset=16).subset
    16
    """
    return _made(STRATEGIES.recipe(strategy), metric, options)


def _made(recipe: Recipe, metric: MetricLike, options: Mapping[str, Any]) -> Strategy:
    check_owners(option_names(recipe.cls), metric, options)
    made: Strategy = recipe.make({**options, "metric": as_metric(metric)})
    return made


def make_sampler(name: SamplerName | str, /, **options: Any) -> Sampler:
    """Create a sampler from its name and options, as `minrisk list samplers` shows them.

    Args:
        name: as in `--sampler`.
        options: the fields of its dataclass.

    Raises:
        InputError: if there is no such name or option, or a value is wrong.

    >>> make_sampler("openai", model="m", endpoint="http://localhost:8000/v1").max_tokens
    2048
    """
    return as_sampler(SAMPLERS.make(name, **options))


class HasSegment(Protocol):
    """A result that holds its segment, for example of `sample`."""

    @property
    def segment(self) -> Segment: ...


def decode(
    hypotheses: Sequence[str] | Segment | HasSegment,
    references: Sequence[str] | None = None,
    source: str | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    counts: npt.ArrayLike | None = None,
    logprobs: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    position: int = 0,
    outcomes: Sequence[str | None] | None = None,
    metric: MetricLike | None = None,
    matrix: npt.ArrayLike | None = None,
    strategy: StrategyLike | None = None,
    abstain: float | None = None,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by their expected utility over the references.

    A loop that passes the `position` of each segment gives the same results as `minrisk decode` on
    a file, even with a random strategy. The last 4 metrics made by name are cached, so that a loop
    loads a model once.

    Args:
        hypotheses: the texts that may be chosen, usually samples of a model; or a `Segment`, or
            a result of `sample` or another call, which has its references, weights and so on.
        references: the texts they are scored against [default: the hypotheses themselves].
        source: the source text, for metrics that need it.
        weights: one per reference [default: equal].
        counts: number of equal samples that each hypothesis stands for [default: 1].
        logprobs: log-probability of each hypothesis, for the metric `logprob`; not a weight.
        lengths: length of each hypothesis in tokens, for the metric `logprob`.
        position: the segment's position in the input, which seeds its random stream.
        outcomes: what each hypothesis printed when it was executed, for the metric "outcomes".
        metric: a metric, its name or class, or a function of hypothesis and reference
            [default: chrF]. `make_metric` makes one by name with options.
        matrix: scores instead of a metric: a row for each hypothesis and a column for each
            reference, or for each distinct one, as `--matrix` writes them
            (`numpy.load("scores.npz")["0"]`).
        strategy: a strategy, its name or class [default: standard, every hypothesis against every
            reference].
        abstain: minimum share of the samples in the largest cluster of similar samples, by the
            metric; below it, the ranking is `abstained` and has no `text`.
        options: options of a strategy that is given by name or class.

    Returns:
        All hypotheses, best first; `text` is the best one, `utility` holds the expected scores.

    Raises:
        InputError: if an argument is not valid, or the metric lacks an ability that the strategy
            needs.
        MissingExtra: if the metric needs a package that is not installed.

    >>> samples = ["The cat sat on the mat.", "A cat sat on the mat.", "The dog sat."]
    >>> decode(samples).text
    'The cat sat on the mat.'
    >>> decode(samples, metric=lambda hyp, ref: len(set(hyp) & set(ref)), counts=[1, 1, 9]).best
    2
    >>> decode(samples, strategy="aggregate-to-fine", keep=2).order.tolist()
    [0, 1, 2]
    """
    given = (references, source, weights, counts, logprobs, lengths, outcomes)
    problem: Any = getattr(hypotheses, "segment", hypotheses)
    if isinstance(problem, Mapping):
        raise InputError("decode takes a list of hypotheses, a Segment or the result of a call; "
                         "for a dict with the fields of a JSON line, call decode_corpus([...])")
    if not isinstance(problem, Segment):
        segment = Segment(problem, references, source, weights, position, counts, logprobs, lengths,
                          outcomes)
    elif any(value is not None for value in given):
        raise InputError("a segment already has its references, source, weights and counts; give "
                         "it alone, or give its hypotheses")
    else:
        segment = problem.at(position) if position else problem
    if matrix is not None:
        if metric is not None:
            raise InputError("metric and matrix are mutually exclusive; give one of them")
        metric = given_scores(matrix, segment)
    chosen = resolve_strategy(strategy, metric, options)
    share = checked("abstain", abstain, float | None, _SHARE)
    measured = chosen
    if share is not None:
        from minrisk.strategies.uncertain import Uncertain  # which imports this package

        measured = Uncertain(chosen)
    rankings = measured.rank([segment])
    check_rankings(chosen.name, rankings, [segment])
    (ranking,) = rankings
    return add_texts(ranking.abstain_below(share), segment, chosen)


def add_texts(ranking: Ranking, segment: Segment, strategy: Strategy) -> Ranking:
    """The ranking with its texts and its signature."""
    return replace(ranking, hypotheses=segment.hypotheses, signature=signature(strategy))


def check_owners(known: Iterable[str], metric: MetricLike | None,
                 options: Mapping[str, Any]) -> None:
    """Raise an error for an unknown option that belongs to the metric or to another strategy."""
    for option in [name for name in options if name not in set(known)]:
        chosen = as_metric(METRIC if metric is None else metric)
        if option in option_names(type(chosen)):
            raise InputError(
                Wording("unknown option {option!r}; it belongs to metric {name!r}: give "
                        "metric=minrisk.make_metric({name!r}, {option}={brief})", option=option,
                        name=chosen.name, brief=brief(options[option])))
        owners = [name for name, cls in STRATEGIES.installed() if option in option_names(cls)]
        if owners:
            raise InputError(f"unknown option {option!r}; it belongs to strategy "
                             f"{', '.join(owners)}")


def option_names(cls: Any) -> list[str]:
    """The names of the options of a metric or strategy class; none if it is not a dataclass."""
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []


def resolve_strategy(strategy: StrategyLike | None, metric: MetricLike | None,
                    options: dict[str, Any], default: str = STRATEGY) -> Strategy:
    """A strategy from its name or class with a metric and options; an object as it is."""
    if strategy is None or isinstance(strategy, str):
        return make_strategy(strategy or default, METRIC if metric is None else metric, **options)
    if isinstance(strategy, type) and issubclass(strategy, Options):
        recipe = Recipe("strategy", strategy.__name__, strategy)
        return as_strategy(_made(recipe, METRIC if metric is None else metric, options))
    chosen = as_strategy(strategy)
    if metric is not None or options:
        named = ", ".join([*(["metric"] if metric is not None else []), *options])
        raise InputError(f"{named}: the strategy {chosen.name!r} already has its options; give the "
                         "strategy by name, or pass these to its constructor")
    return chosen
