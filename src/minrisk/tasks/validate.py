"""`validate` and `minrisk.validate`: compare strategies on the user's samples and metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from minrisk._core.adapters import as_metric
from minrisk._core.decoding import METRIC, MetricLike, StrategyLike, option_names
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.metric import AnyMetric
from minrisk._core.names import StrategyName
from minrisk._core.options import Options, flag
from minrisk._core.registry import STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.evaluation.coverage import GOLD
from minrisk.evaluation.stages import (
    Evaluate,
    PreviewReader,
    TrialResultsWriter,
    read_trial_results,
    results_of,
)
from minrisk.evaluation.study import LeftOut, Study, TrialResults
from minrisk.evaluation.validation import Validation, summarise
from minrisk.io.files import Input
from minrisk.io.inputs import PARQUET
from minrisk.io.segments import SampleReader
from minrisk.io.text import FilePath
from minrisk.io.weighting import Weighting
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Corpus, Segments, segments_of
from minrisk.tasks.decode import LIMIT_HELP, WeightOptions
from minrisk.tasks.results import RunSummary

if TYPE_CHECKING:
    from minrisk.tasks.keywords import ValidateKeywords


@dataclass(frozen=True)
class StudyScope(Options):
    """The criteria of a validation, and the number of segments."""

    top: int = flag(20, section="Method", metavar="K", ge=1, advanced=True,
                    help="Number of best hypotheses that must include the exact choice, for top-K "
                    "accuracy.")
    tolerance: float | None = flag(
        None, section="Method", metavar="U", ge=0,
        help="Maximum loss of utility of the recommended strategy, at the upper end of its 95% "
        "interval. [default: 1% of the gain of exact MBR over a random sample]")
    seed: int = flag(0, section="Method", metavar="S", ge=0, help="Random seed.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1,
                             help=LIMIT_HELP)
    gold: str = flag(GOLD, section="Input", metavar="FIELD",
                     help="Field with the gold answer; for votes, adds how often one sample, the "
                     "choice, and any of k samples is right.")


class Validating:
    """A study of strategies on segments, and the run that does it."""

    def __init__(self, corpus: Corpus, metric: AnyMetric, strategies: Sequence[str] | None,
                 scope: StudyScope, weighting: Weighting, note: Callable[[LeftOut], None],
                 further: Mapping[str, AnyMetric | Strategy]) -> None:
        self._corpus, self._scope = replace(corpus, limit=scope.limit), scope
        lines = SampleReader(corpus.files, weighting)
        self._inputs = self._corpus.inputs(lines)
        self._reader = PreviewReader(self._inputs["reader"])
        for name in strategies or ():
            STRATEGIES.get(name)  # raises InputError for unknown names
        names = strategies
        if names is None:
            other = [name for name, cls in STRATEGIES.installed()
                     if not getattr(cls, "approximates_standard", True)]
            names = [name for name in STRATEGIES.names() if name not in other]
            note(LeftOut(sorted(other), "they do not approximate standard MBR"))
        self.study = Study(metric, self._reader.typical(), names, scope.top,
                           note if strategies is None else None,
                           seed=scope.seed, weights=str(weighting), **further)

    def job(self, config: RunOptions) -> Job:
        """The job that writes the results of segments."""
        if config.output is not None and (config.is_stream or config.is_folder):
            raise InputError(Wording("output={output!r} must be a file",
                                     output=config.output))
        if config.output is not None and config.output.endswith(PARQUET):
            raise InputError(f"{config.output} is Parquet, but results of trials are JSON lines; "
                             "name a .jsonl file")
        study = self.study
        return Job(
            **self._inputs | {"reader": self._reader,
                              "parser": self._inputs["parser"] or self._inputs["reader"]},
            pools=[config.pool(Evaluate(study, self._scope.gold))],
            settings={"signature": study.signature, "limit": self._scope.limit,
                      "trials": [trial.label for trial in study.trials]},
            signatures=[study.signature],
            writer=TrialResultsWriter(),
            make=results_of if config.output is None else None,
        )

    def result(self, config: RunOptions, collected: Sequence[TrialResults | None],
               skipped: Sequence[str] = ()) -> Validation:
        """The result of the run; `skipped` names strategies that could not be tried."""
        trials = self.study.trials
        results = [found for found in collected if found is not None]  # the others failed
        if config.output is not None:
            results = list(read_trial_results(
                Input(config.output), "remove the file to have it made again",
                [trial.label for trial in trials]))
        return summarise(trials, results, self._scope.tolerance, self.study, skipped)


def validate(
    segments: Segments,
    metric: MetricLike = METRIC,
    *,
    strategies: Iterable[StrategyName | str] | None = None,
    coarse: MetricLike | StrategyLike | None = None,
    fine: StrategyLike | None = None,
    quality: MetricLike | None = None,
    output: FilePath | None = None,
    **options: Unpack[ValidateKeywords],
) -> Validation:
    """Compare strategies on segments, and recommend one, as `minrisk validate` does.

    Args:
        segments: as in `decode_corpus`.
        metric: a metric, its name or class, or a function of hypothesis and reference.
        strategies: names of strategies to try; default: all that fit the metric and approximate
            standard MBR.
        top: k of the top-k accuracy; default: 20.
        tolerance: largest loss of utility of a recommended strategy, at the upper end of its 95%
            interval over segments; default: 1% of what exact MBR gains over a random sample.
        weights, weights_temperature: as in `decode_corpus`.
        seed: seed of random choices.
        limit: maximum number of segments to read.
        gold: field with the gold answer, or a list of them; default: "gold". By a metric that
            votes, the result then says how often one sample is right, the choice, and any of k.
        coarse: the cheaper metric of "coarse-to-fine", which is only tried with it; with "cascade"
            among `strategies`, the strategy of its first stage.
        fine: the strategy of the second stage of "cascade"; default: "standard".
        quality: the metric of "quality-then-mbr", which is only tried with it.
        output: file for the results of every segment as JSON lines; `resume` continues it.
        options: also of the run, as in `decode_corpus`.

    Returns:
        The table and the recommended strategy, with methods to save and plot them.

    Raises:
        InputError: if an argument is invalid, a named strategy does not work with the metric, or no
            segment can be evaluated.

    >>> corpus = [["the cat sat", "a cat sat", "the dog sat", "the cat sat"]] * 2
    >>> found = validate(corpus, "chrf", strategies=["aggregate"])
    >>> found.fewest_pairs.trial.label, found.fewest_pairs.lost
    ('aggregate groups n/4', 0.0)
    """
    call = Call(output, options)
    scope, weights = call.take(StudyScope), call.take(WeightOptions)
    call.check()
    corpus = segments_of(segments, call.config.engine)
    left_out: list[LeftOut] = []
    names = _names(strategies)
    validating = Validating(
        corpus, as_metric(metric), names, scope, weights.weighting(corpus), left_out.append,
        _further(as_metric(metric), {"coarse": coarse, "fine": fine, "quality": quality},
                 names or (), scope.seed))
    job = validating.job(call.config)
    done = call.run(job, results_of)
    collected = [] if isinstance(done, RunSummary) else list(done)
    return validating.result(call.config, collected, [*map(str, left_out)])


def _further(metric: AnyMetric, given: Mapping[str, Any], strategies: Sequence[str],
             seed: int) -> dict[str, AnyMetric | Strategy]:
    """Second metrics of strategies, or the stages of a named strategy."""
    further: dict[str, AnyMetric | Strategy] = {}
    stages = [field for field in ("coarse", "fine") if "cascade" in strategies]
    if given["fine"] and not stages:
        raise InputError(Wording("fine= is only for the strategy cascade; name it in strategies="))
    for field, value in given.items():
        if value is None:
            continue
        if field not in stages:
            further[field] = as_metric(value, field)
        elif isinstance(value, str):
            options = {"metric": metric, "seed": seed}
            known = option_names(STRATEGIES.get(value))
            further[field] = STRATEGIES.make(
                value, **{name: options[name] for name in options if name in known})
        else:
            further[field] = value
    return further


def _names(strategies: Iterable[str] | None) -> list[str] | None:
    if strategies is None:
        return None
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):
        raise InputError(f"strategies must be a list of names; got {brief(strategies)}")
    names = list(strategies)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"strategies must be names; got {brief(name)}")
    return names
