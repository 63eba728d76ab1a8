"""The job of `validate`: try strategies on segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, flag
from minrisk._core.registry import STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.evaluation.stages import (
    Evaluate,
    PeekableReader,
    TrialResultsWriter,
    read_trial_results,
)
from minrisk.evaluation.study import LeftOut, Study, TrialResults
from minrisk.evaluation.validation import Validation, summarise
from minrisk.io.files import Input
from minrisk.io.parquet import is_parquet
from minrisk.io.records import Record, Weighting
from minrisk.io.segments import SampleReader
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import collect
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.decoding import LIMIT_HELP


@dataclass(frozen=True)
class StudyScope(Options):
    """What a validation asks, and of how many segments."""

    top: int = flag(20, section="Method", metavar="K", ge=1,
                    help="Number of best hypotheses among which the exact choice is looked for.")
    tolerance: float | None = flag(
        None, section="Method", metavar="U", ge=0,
        help="Utility that a recommended strategy may lose, at the upper end of its 95% "
        "interval; unless given, 1% of what exact MBR gains over a random sample.")
    seed: int = flag(0, section="Method", metavar="S", ge=0, help="Seed of random choices.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1,
                             help=LIMIT_HELP)


class Validating:
    """A study of segments, and the run that does it."""

    def __init__(self, corpus: Corpus, metric: AnyMetric, strategies: Sequence[str] | None,
                 scope: StudyScope, weighting: Weighting, note: Callable[[LeftOut], None],
                 further: Mapping[str, AnyMetric | Strategy]) -> None:
        self._corpus, self._scope = replace(corpus, limit=scope.limit), scope
        lines = SampleReader(corpus.files, weighting)
        self._reader = PeekableReader(self._corpus.reader(lines))
        self._parser = self._corpus.parser(lines)
        for name in strategies or ():
            STRATEGIES.get(name)  # raises InputError if there is none
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
        """The results of segments go to the output, or are collected if there is none."""
        if config.output is not None and (config.is_stream or config.is_folder):
            raise InputError(Wording("output={output!r} must be a file, which can be read again",
                                     output=config.output))
        if config.output is not None and is_parquet(config.output):
            raise InputError(f"{config.output} is Parquet; results of trials are JSON lines: name "
                             "it .jsonl")
        study = self.study
        last = collect(_results) if config.output is None else config.write(TrialResultsWriter())
        return Job(
            files=self._corpus.files,
            reader=self._reader,
            pools=[config.pool(Evaluate(study), last)],
            settings={"signature": study.signature, "limit": self._scope.limit,
                      "trials": [trial.label for trial in study.trials]},
            signatures=[study.signature],
            parser=self._parser or self._reader.reader,
            also_read=self._corpus.further_files,
        )

    def result(self, config: RunOptions, collected: Sequence[TrialResults | None],
               skipped: Sequence[str] = ()) -> Validation:
        """The result of the run; `skipped` are strategies that could not be tried."""
        results = self._results(config, collected)
        summary = summarise(self.study.trials, results, self._scope.tolerance)
        return Validation(summary, self.study.signature, skipped, self.study)

    def _results(self, config: RunOptions,
                  collected: Sequence[TrialResults | None]) -> list[TrialResults]:
        """The results of all segments that did not fail: those collected, or in the output."""
        if config.output is not None:
            labels = [trial.label for trial in self.study.trials]
            return list(read_trial_results(Input(config.output),
                                           "remove the file to have it made again", labels))
        return [found for found in collected if found is not None]


def _results(record: Record) -> TrialResults | None:
    found: TrialResults | None = record.value
    return found
