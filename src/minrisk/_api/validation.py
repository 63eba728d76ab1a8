"""`minrisk.validate`: which strategy to trust, on samples and a metric of one's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack

from minrisk._api.decoding import Segments, Weights, weighting
from minrisk._api.keywords import RunKeywords
from minrisk._api.results import Collect
from minrisk._api.runs import (
    complete,
    iterate,
    other_options,
    run_config,
    segment_input,
)
from minrisk._core.adapters import as_metric
from minrisk._core.decoding import METRIC, MetricLike, StrategyName
from minrisk._core.errors import InputError, brief
from minrisk._core.options import Bounds, checked
from minrisk._core.registry import STRATEGIES
from minrisk.evaluation.budgets import OTHER_AIMS
from minrisk.evaluation.figure import check_figure, plot
from minrisk.evaluation.report import report_lines
from minrisk.evaluation.stages import Evaluate, OutcomesWriter, Peeked, read_outcomes
from minrisk.evaluation.study import SegmentOutcomes, Study
from minrisk.evaluation.summary import Summary, TrialSummary, summarise
from minrisk.io.files import Input, Output
from minrisk.io.jsonl import SampleReader
from minrisk.io.record import Record
from minrisk.io.text_files import FilePath
from minrisk.pipeline.job import RunConfig, Work
from minrisk.pipeline.stages import Stage, Write


@dataclass(frozen=True)
class Validation:
    """The results of every strategy on the segments, and the recommended one.

    Printed, it is the table of `minrisk validate`.

    >>> import minrisk
    >>> samples = ["the cat sat", "a cat sat", "the dog sat", "the cat ran", "cats sit"]
    >>> found = minrisk.validate([samples], strategies=["n-by-s"], tolerance=100)
    >>> [row.trial.label for row in found.rows]
    ['standard', 'n-by-s subset n/2', 'n-by-s subset n/4']
    >>> found.rows[0].lost
    0.0
    """

    summary: Summary = field(repr=False)
    signature: str
    skipped: Sequence[str] = ()  # strategies that the metric cannot do, with the reasons
    _study: Study | None = field(default=None, repr=False)

    @property
    def rows(self) -> list[TrialSummary]:
        """Each strategy at each budget: standard MBR first."""
        return self.summary.rows

    @property
    def recommended(self) -> TrialSummary:
        """The fastest within the tolerance, unless standard MBR is nearly as fast."""
        return self.summary.recommended

    @property
    def fewest_pairs(self) -> TrialSummary:
        """The one that evaluates the fewest pairs within the tolerance."""
        return self.summary.fewest_pairs

    def as_json(self) -> dict[str, Any]:
        """The dictionary that `minrisk validate --format json` prints."""
        return {"signature": self.signature} | self.summary.as_json()

    def save(self, path: FilePath) -> None:
        """Write `as_json()` to a file."""
        with Output(os.fspath(path)) as output:
            output.write(json.dumps(self.as_json(), indent=1) + "\n")

    def plot(self, path: FilePath) -> None:
        """Plot accuracy over effective references, as .png, .svg or .pdf (`minrisk[plot]`)."""
        assert self._study is not None
        check_figure(os.fspath(path))
        plot(self.summary, self._study, os.fspath(path))

    def __str__(self) -> str:
        assert self._study is not None
        return "\n".join(report_lines(self.summary, self._study.top, self.signature))


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
    coarse: MetricLike | None = None,
    quality: MetricLike | None = None,
    output: FilePath | None = None,
    **options: Unpack[RunKeywords],
) -> Validation:
    """Try every strategy at every budget, and recommend one, as `minrisk validate` does.

    Args:
        segments: as of `decode_corpus`.
        metric: a metric, its name or class, or a function of hypothesis and reference.
        strategies: names of those to try; all unless given.
        top: k of the top-k accuracy.
        tolerance: largest loss of utility of a strategy that is recommended; 1% of what exact MBR
            gains over a random sample unless given.
        weights, weights_temperature: as of `decode_corpus`.
        seed: seed of random choices.
        limit: number of segments to read at most.
        coarse: the cheaper metric of "coarse-to-fine", which is tried if it is given.
        quality: the metric of "quality-then-mbr", which is tried if it is given.
        output: file for every segment's results as JSON lines, which `resume` goes on with.
        options: of the run, as of `decode_corpus`.

    Returns:
        The table, the recommended strategy, and methods that save and plot them.

    Raises:
        InputError: if an argument is invalid, or no segment can be evaluated.

    >>> corpus = [["the cat sat", "a cat sat", "the dog sat", "the cat sat"]] * 2
    >>> found = validate(corpus, "chrf", strategies=["aggregate"])
    >>> found.fewest_pairs.trial.label, found.fewest_pairs.lost
    ('aggregate groups n/4', 0.0)
    """
    config = run_config(output, options)
    other_options(options)
    _check_numbers(top, tolerance, seed, limit)
    source, weighed = segment_input(segments, options), weighting(weights, weights_temperature)
    lines = partial(SampleReader, weighting=weighed)
    whole = source.reader(lines, tuple(source.files), None)
    reader = Peeked(whole, limit)
    skipped: list[str] = []
    further = {"coarse": coarse, "quality": quality}
    study = Study(as_metric(metric), reader.typical(), _names(strategies), top, skipped.append,
                  seed=seed, weights=str(weighed),
                  **{name: as_metric(value, name) for name, value in further.items() if value})
    last: Stage = Collect(_outcomes) if output is None else Write(OutcomesWriter())
    work = Work(
        files=source.files,
        reader=lambda files, number: reader,
        pools=[config.pool(Evaluate(study), last)],
        settings={"signature": study.signature,
                  "trials": [trial.label for trial in study.trials], "limit": limit},
        signatures=[study.signature],
        parser=source.parser(lines) or whole,
        also_read=source.further_files,
    )
    found = list(_all_outcomes(config, work, study, options))
    return Validation(summarise(study.trials, found, tolerance), study.signature, skipped, study)


def _all_outcomes(config: RunConfig, work: Work, study: Study,
                  options: RunKeywords) -> Iterator[SegmentOutcomes]:
    progress = options.get("progress", False)
    if config.output is None:
        return (found for found in iterate(config, work, progress) if found is not None)
    if config.is_stream or config.is_folder:
        raise InputError(f"output {config.output!r} must be a file, which can be read again")
    complete(config, work, progress)
    return read_outcomes(Input(config.output), config.output, study)


def _outcomes(record: Record) -> SegmentOutcomes | None:
    found: SegmentOutcomes | None = record.value
    return found


def _check_numbers(top: int, tolerance: float | None, seed: int, limit: int | None) -> None:
    checked("top", top, int, Bounds(ge=1))
    checked("tolerance", tolerance, float | None, Bounds(ge=0))
    checked("seed", seed, int, Bounds(ge=0))
    checked("limit", limit, int | None, Bounds(ge=1))


def _names(strategies: Iterable[str] | None) -> list[str]:
    if strategies is None:
        return [name for name in STRATEGIES.names() if name not in OTHER_AIMS]
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):
        raise InputError(f"strategies must be a list of names; got {brief(strategies)}")
    found = list(strategies)
    for name in found:
        if not isinstance(name, str):
            raise InputError(f"strategies must be names; got {brief(name)}")
        STRATEGIES.get(name)
    return found
