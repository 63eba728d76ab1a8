"""`minrisk validate`: compare strategies on your samples and metric."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import StringIO
from typing import Literal

import click

from minrisk._core.options import flag
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk.cli.command import command
from minrisk.cli.components import StudyOptions
from minrisk.cli.execute import execute
from minrisk.cli.progress import Progress
from minrisk.cli.run_options import WORKER_OPTIONS, RunOptions
from minrisk.cli.segment_input import JsonInput
from minrisk.evaluation.budgets import OTHER_AIMS
from minrisk.evaluation.figure import check_figure, plot
from minrisk.evaluation.report import report_lines
from minrisk.evaluation.stages import Evaluate, OutcomesWriter, Peeked, read_outcomes
from minrisk.evaluation.study import Study
from minrisk.evaluation.summary import summarise
from minrisk.io.files import Input
from minrisk.io.jsonl import SampleReader
from minrisk.io.record import Weighting
from minrisk.pipeline.job import Work
from minrisk.pipeline.stages import Write


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
    files = tuple(segments.files())
    reader = Peeked(SampleReader(files, segments.weighting), scope.limit)
    study = _study(metrics, scope, segments.weighting, reader.typical(), options)
    labels = [trial.label for trial in study.trials]
    results = StringIO() if options.output == "-" else None
    done = execute(options, Work(
        files=files,
        reader=lambda files, number: reader,
        pools=[options.pool(Evaluate(study), Write(OutcomesWriter()))],
        settings={"signature": study.signature, "trials": labels, "limit": scope.limit},
        signatures=[study.signature],
        stream=results,
    ), written=output.plot)
    lines = Input(options.output) if results is None else results.getvalue().encode(
        "utf-8", "backslashreplace").splitlines()
    outcomes = list(read_outcomes(lines, "the results" if results else options.output, study))
    summary = summarise(study.trials, outcomes, scope.tolerance)
    for path in output.plot:
        plot(summary, study, path)
    if output.format == "json":
        click.echo(json.dumps({"signature": study.signature} | summary.as_json(), indent=1))
    else:
        head, *lines_below = report_lines(summary, study.top, study.signature)
        click.echo(click.style(head, bold=True))
        click.echo("\n".join(lines_below))
    return done.code


def _study(metrics: StudyOptions, scope: StudyScope, weighting: Weighting,
           typical: list[Segment], options: RunOptions) -> Study:
    comparable = [name for name in STRATEGIES.names() if name not in OTHER_AIMS]
    for name in scope.strategy:
        STRATEGIES.get(name)
    return Study(metrics.make(), typical, scope.strategy or comparable, scope.top,
                 Progress(options.quiet, lambda: None).note, seed=scope.seed,
                 weights=str(weighting), **metrics.further())
