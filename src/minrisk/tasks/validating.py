"""The job of `validate`: try strategies on segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, flag
from minrisk._core.registry import STRATEGIES
from minrisk.evaluation.budgets import OTHER_AIMS
from minrisk.evaluation.stages import Evaluate, OutcomesWriter, Peeked, read_outcomes
from minrisk.evaluation.study import SegmentOutcomes, Study
from minrisk.evaluation.summary import summarise
from minrisk.evaluation.validation import Validation
from minrisk.io.files import Input
from minrisk.io.jsonl import SampleReader
from minrisk.io.record import Record, Weighting
from minrisk.pipeline.job import Job, RunConfig
from minrisk.pipeline.stages import Collect, Write
from minrisk.tasks.corpus import Corpus


@dataclass(frozen=True)
class StudyScope(Options):
    """What a validation asks, and of how many segments."""

    top: int = flag(20, section="Method", metavar="K", ge=1,
                    help="Number of best hypotheses among which the exact choice is looked for.")
    tolerance: float | None = flag(
        None, section="Method", metavar="U", ge=0,
        help="Utility that a recommended strategy may lose; unless given, 1% of what exact MBR "
        "gains over a random sample.")
    seed: int = flag(0, section="Method", metavar="S", ge=0, help="Seed of random choices.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1,
                             help="Number of segments to read; all unless given.")


class Validating:
    """A study of segments, and the run that does it."""

    def __init__(self, corpus: Corpus, metric: AnyMetric, strategies: Sequence[str] | None,
                 scope: StudyScope, weighting: Weighting, note: Callable[[str], None],
                 further: Mapping[str, AnyMetric]) -> None:
        self._corpus, self._scope = corpus, scope
        self._make_reader = partial(SampleReader, weighting=weighting)
        self._whole = corpus.reader(self._make_reader, tuple(corpus.files), None)
        self._reader = Peeked(self._whole, scope.limit)
        for name in strategies or ():
            STRATEGIES.get(name)  # raises InputError if there is none
        names = strategies if strategies is not None else [
            name for name in STRATEGIES.names() if name not in OTHER_AIMS]
        self.study = Study(metric, self._reader.typical(), names, scope.top, note,
                           seed=scope.seed, weights=str(weighting), **further)

    def job(self, config: RunConfig) -> Job:
        """The results of segments go to the output, or are collected if there is none."""
        if config.output is not None and (config.is_stream or config.is_folder):
            raise InputError(f"output={config.output!r} must be a file, which can be read again")
        study = self.study
        last = Collect(_outcomes) if config.output is None else Write(OutcomesWriter())
        return Job(
            files=self._corpus.files,
            reader=lambda files, number: self._reader,
            pools=[config.pool(Evaluate(study), last)],
            settings={"signature": study.signature, "limit": self._scope.limit,
                      "trials": [trial.label for trial in study.trials]},
            signatures=[study.signature],
            parser=self._corpus.parser(self._make_reader) or self._whole,
            also_read=self._corpus.further_files,
        )

    def result(self, config: RunConfig, collected: Sequence[SegmentOutcomes | None],
               skipped: Sequence[str] = ()) -> Validation:
        """The result of the run; `skipped` are strategies that could not be tried."""
        outcomes = self._outcomes(config, collected)
        summary = summarise(self.study.trials, outcomes, self._scope.tolerance)
        return Validation(summary, self.study.signature, skipped, self.study)

    def _outcomes(self, config: RunConfig,
                  collected: Sequence[SegmentOutcomes | None]) -> list[SegmentOutcomes]:
        """The results of all segments that did not fail: those collected, or in the output."""
        if config.output is not None:
            return list(read_outcomes(Input(config.output), config.output, self.study))
        return [found for found in collected if found is not None]


def _outcomes(record: Record) -> SegmentOutcomes | None:
    found: SegmentOutcomes | None = record.value
    return found
