"""`minrisk validate`: which strategy to trust, on samples and a metric of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import chain, islice
from typing import ClassVar, Literal

import click

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk.cli.command import command
from minrisk.cli.components import StudyOptions
from minrisk.cli.execute import Job, execute
from minrisk.cli.options import flag
from minrisk.cli.progress import Progress
from minrisk.cli.run_options import WORKER_OPTIONS, RunOptions
from minrisk.cli.segment_input import JsonInput
from minrisk.cli.validate_report import show
from minrisk.evaluation.budgets import OTHER_AIMS
from minrisk.evaluation.figure import check_figure, plot
from minrisk.evaluation.study import SegmentOutcomes, Study
from minrisk.evaluation.summary import summarise
from minrisk.io.files import Input, text_of
from minrisk.io.jsonl import SampleReader, parse
from minrisk.io.record import RawRecord, Record, Weighting, at
from minrisk.io.writer import error_line, json_line
from minrisk.pipeline.stages import Write

_TYPICAL = 32  # segments whose sizes decide which budgets are tried


@dataclass(frozen=True)
class StudyScope:
    strategy: tuple[str, ...] = flag(
        (), section="Method", metavar="NAME", registry=STRATEGIES,
        help="Strategy to try; may be given several times. All unless given.")
    top: int = flag(20, section="Method", metavar="K", ge=1,
                    help="Number of best hypotheses among which the exact choice is looked for.")
    tolerance: float | None = flag(
        None, section="Method", metavar="U", ge=0,
        help="Utility that a recommended strategy may lose; unless given, 1% of what exact MBR "
        "gains over a random sample.")
    seed: int = flag(0, section="Method", metavar="S", ge=0, help="Seed of random choices.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1,
                             help="Number of segments to read; all unless given.")


@dataclass(frozen=True)
class StudyOutput:
    format: Literal["text", "json"] = flag(
        "text", section="Output", help="Format of the summary on standard output.")
    plot: tuple[str, ...] = flag(
        (), section="Output", metavar="FILE",
        help="Figure of accuracy over effective references: .png, .svg or .pdf (minrisk[plot]).")


@dataclass(frozen=True)
class ValidateRun(RunOptions):
    output: str = flag(
        "-", "-o", section="Output", metavar="FILE",
        help="File for the results of every segment, as JSON lines; none unless given.")


@command(without=WORKER_OPTIONS, examples="""\
  minrisk validate samples.jsonl --plot accuracy.png
  minrisk validate samples.jsonl --metric comet -o comet.jsonl --resume --tolerance 0.001
  minrisk validate samples.jsonl --strategy coarse-to-fine --coarse chrf --coarse.order 2""")
def validate(metrics: StudyOptions, scope: StudyScope, segments: JsonInput, options: ValidateRun,
             output: StudyOutput) -> int:
    """Try every strategy at every budget, and recommend one.

    On your samples and with your metric: runs standard MBR, then each strategy on the same
    features, and asks how often it finds the exact choice, how much utility it loses, how many
    pairs it evaluates and how long it takes. INPUT is JSON lines, as `minrisk decode` reads them.
    A strategy that needs a further metric is tried if that is given, as in --coarse chrf.
    """
    options.apply()
    for path in output.plot:
        check_figure(path)
    reader = Peeked(SampleReader(tuple(segments.files()), segments.weighting), scope.limit)
    study = _study(metrics, scope, segments.weighting, reader.typical(), options)
    labels = [trial.label for trial in study.trials]
    results = StringIO() if options.output == "-" else None
    done = execute(options, Job(
        files=reader.reader.files,
        reader=lambda files, number: reader,
        pools=[options.pool(Evaluate(study), Write(OutcomesWriter()))],
        settings={"signature": study.signature, "trials": labels, "limit": scope.limit},
        signatures=[study.signature],
        stream=results,
        also_written=output.plot,
    ))
    outcomes = list(_outcomes(options.output, results, labels))
    summary = summarise(study.trials, outcomes, scope.tolerance)
    for path in output.plot:
        plot(summary, study, path)
    if output.format == "json":
        click.echo(json.dumps({"signature": study.signature} | summary.as_json(), indent=1))
    else:
        show(summary, study)
    return done.code


@dataclass
class Peeked:
    """A reader whose first records may be looked at before it is read, also from a pipe."""

    reader: SampleReader
    limit: int | None = None
    _inputs: list[Input] = field(default_factory=list)
    _first: list[RawRecord] = field(default_factory=list)
    _records: Iterator[RawRecord] = field(default_factory=lambda: iter(()))

    def typical(self) -> list[Segment]:
        """The segments of the first records."""
        self._inputs = self.reader.open()
        self._records = islice(self.reader.records(self._inputs), self.limit)
        try:
            for raw in islice(self._records, _TYPICAL):
                self._first.append(raw)
        except MinriskError as error:  # what came before it is still good
            self._records = _raising(error)
        records = [self.reader.parse(raw) for raw in self._first]
        found = [record.segment for record in records if record.segment]
        if not found:
            next(self._records, None)  # which may know why
            names = ", ".join(file.name for file in self.reader.files)
            reason = next((f"{r.where}: {r.error}" for r in records),
                          f"{names}: no segments; wanted JSON lines with samples")
            raise InputError(reason)
        return found

    def open(self) -> list[Input]:
        return self._inputs

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        return chain(self._first, self._records)

    def parse(self, raw: RawRecord) -> Record:
        return self.reader.parse(raw)


def _raising(error: MinriskError) -> Iterator[RawRecord]:
    raise error
    yield


@dataclass(frozen=True)
class Evaluate:
    """From a segment to what every strategy made of it."""

    name: ClassVar[str] = "decode"
    is_light: ClassVar[bool] = False

    study: Study

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        return map(self._evaluated, items)

    def _evaluated(self, record: Record) -> Record:
        if record.segment is None:
            return record
        try:
            return replace(record, value=self.study.evaluate(record.segment))
        except MinriskError as error:
            return record.failed(error)


@dataclass(frozen=True)
class OutcomesWriter:
    """The outcomes of every segment."""

    def __call__(self, record: Record) -> str:
        return json_line({"id": record.id} | record.value.as_json())

    def failed(self, record: Record) -> str:
        return error_line(record)

    def counts(self, record: Record) -> Mapping[str, int]:
        return {}


def _outcomes(path: str, results: StringIO | None,
              labels: Sequence[str]) -> Iterator[SegmentOutcomes]:
    """Of the segments that did not fail, from the output; or from memory, if there is no file."""
    name = "the results" if results else path
    lines: Iterable[bytes] = results.getvalue().encode(
        "utf-8", "backslashreplace").splitlines() if results else Input(path)
    for number, line in enumerate(lines, 1):
        with at(f"{name}:{number}"):
            fields = parse(text_of(line, number), "remove the file to have it made again")
            if "error" not in fields:
                yield SegmentOutcomes.from_json(fields, labels)


def _study(metrics: StudyOptions, scope: StudyScope, weighting: Weighting,
           typical: list[Segment], options: RunOptions) -> Study:
    comparable = [name for name in STRATEGIES.names() if name not in OTHER_AIMS]
    for name in scope.strategy:
        STRATEGIES.get(name)
    return Study(metrics.make(), typical, scope.strategy or comparable, scope.top,
                 Progress(options.quiet, lambda: None).note, seed=scope.seed,
                 weights=str(weighting), **metrics.further())
