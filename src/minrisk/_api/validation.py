"""`minrisk.validate`: which strategy to trust, on samples and a metric of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from minrisk._api.decoding import Segments
from minrisk._api.keywords import RunKeywords
from minrisk._api.runs import complete, iterate, other_options, run_config
from minrisk._core.adapters import as_metric
from minrisk._core.decoding import METRIC, MetricLike, StrategyLike, option_names
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.metric import AnyMetric
from minrisk._core.names import StrategyName
from minrisk._core.registry import STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.evaluation.study import LeftOut
from minrisk.evaluation.validation import Validation
from minrisk.io.text import FilePath
from minrisk.tasks.corpus import segments_of
from minrisk.tasks.decoding import WeightOptions, Weights
from minrisk.tasks.validating import StudyScope, Validating


def validate(
    segments: Segments,
    metric: MetricLike = METRIC,
    *,
    strategies: Iterable[StrategyName | str] | None = None,
    top: int = 20,
    tolerance: float | None = None,
    weights: Weights = "auto",
    weights_temperature: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    coarse: MetricLike | StrategyLike | None = None,
    fine: StrategyLike | None = None,
    quality: MetricLike | None = None,
    output: FilePath | None = None,
    **options: Unpack[RunKeywords],
) -> Validation:
    """Try the strategies that fit the metric, and recommend one, as `minrisk validate` does.

    Args:
        segments: as of `decode_corpus`.
        metric: a metric, its name or class, or a function of hypothesis and reference.
        strategies: names of those to try; unless given, all that fit the metric and approximate
            standard MBR.
        top: k of the top-k accuracy.
        tolerance: largest loss of utility of a strategy that is recommended, at the upper end of
            its 95% interval over segments; 1% of what exact MBR gains over a random sample unless
            given.
        weights, weights_temperature: as of `decode_corpus`.
        seed: seed of random choices.
        limit: number of segments to read at most.
        coarse: the cheaper metric of "coarse-to-fine", which is tried if it is given; with
            "cascade" among `strategies`, the strategy of its first stage.
        fine: the strategy of the second stage of "cascade"; "standard" unless given.
        quality: the metric of "quality-then-mbr", which is tried if it is given.
        output: file for every segment's results as JSON lines, which `resume` goes on with.
        options: of the run, as of `decode_corpus`.

    Returns:
        The table, the recommended strategy, and methods that save and plot them.

    Raises:
        InputError: if an argument is invalid, a strategy that is named does not run with the
            metric, or no segment can be evaluated.

    >>> corpus = [["the cat sat", "a cat sat", "the dog sat", "the cat sat"]] * 2
    >>> found = validate(corpus, "chrf", strategies=["aggregate"])
    >>> found.fewest_pairs.trial.label, found.fewest_pairs.lost
    ('aggregate groups n/4', 0.0)
    """
    config = run_config(output, options)
    other_options(options)
    scope = StudyScope(top, tolerance, seed, limit)
    corpus = segments_of(segments, options.get("engine"))
    weighting = WeightOptions(weights, weights_temperature).weighting(corpus)
    left_out: list[LeftOut] = []
    names = _names(strategies)
    validating = Validating(
        corpus, as_metric(metric), names, scope, weighting, left_out.append,
        _further(as_metric(metric), {"coarse": coarse, "fine": fine, "quality": quality},
                 names or (), seed))
    job = validating.job(config)
    progress = options.get("progress", False)
    collected = list(iterate(config, job, progress)) if output is None else []
    if output is not None:
        complete(config, job, progress)
    return validating.result(config, collected, [*map(str, left_out)])


def _further(metric: AnyMetric, given: Mapping[str, Any], strategies: Sequence[str],
             seed: int) -> dict[str, AnyMetric | Strategy]:
    """Second metrics of strategies, or the stages of a strategy that is named."""
    found: dict[str, AnyMetric | Strategy] = {}
    stages = [field for field in ("coarse", "fine") if "cascade" in strategies]
    if given["fine"] and not stages:
        raise InputError(Wording("fine= is of the strategy cascade, which strategies= must name"))
    for field, value in given.items():
        if value is None:
            continue
        if field not in stages:
            found[field] = as_metric(value, field)
        elif isinstance(value, str):
            options = {"metric": metric, "seed": seed}
            known = option_names(STRATEGIES.get(value))
            found[field] = STRATEGIES.make(
                value, **{name: options[name] for name in options if name in known})
        else:
            found[field] = value
    return found


def _names(strategies: Iterable[str] | None) -> list[str] | None:
    if strategies is None:
        return None
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):
        raise InputError(f"strategies must be a list of names; got {brief(strategies)}")
    found = list(strategies)
    for name in found:
        if not isinstance(name, str):
            raise InputError(f"strategies must be names; got {brief(name)}")
    return found
