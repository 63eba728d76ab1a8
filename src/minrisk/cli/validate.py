"""`minrisk validate`: compare strategies on your samples and metric."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import click

from minrisk._core.options import flag
from minrisk._core.registry import STRATEGIES
from minrisk.cli.command import command
from minrisk.cli.components import StudyOptions
from minrisk.cli.decode import JsonInput
from minrisk.cli.execute import CommandRun, command_progress, execute
from minrisk.evaluation.figure import check_figure
from minrisk.evaluation.study import LeftOut
from minrisk.tasks.validate import StudyScope, Validating


@dataclass(frozen=True)
class ValidateScope(StudyScope):
    strategy: tuple[str, ...] = flag(
        (), section="Method", metavar="NAME", registry=STRATEGIES,
        help="Strategy to try; may be repeated. [default: all that work with the metric]")


@dataclass(frozen=True)
class StudyOutput:
    format: Literal["text", "json"] = flag(
        "text", section="Output", help="Format of the summary on standard output.")
    plot: tuple[str, ...] = flag(
        (), section="Output", metavar="FILE",
        help="Figure of accuracy over effective references: .png, .svg or .pdf; needs "
        "minrisk[plot].")


@dataclass(frozen=True)
class ValidateRun(CommandRun):
    output: str | None = flag(
        None, "-o", section="Output", metavar="FILE",
        help="File for the results of every segment, as JSON lines.")


@command(examples="""\
  minrisk validate samples.jsonl --plot accuracy.png
  minrisk validate samples.jsonl --metric comet -o comet.jsonl --resume --tolerance 0.001
  minrisk validate samples.jsonl --strategy coarse-to-fine --coarse chrf --coarse.order 2""")
def validate(metrics: StudyOptions, scope: ValidateScope, segments: JsonInput, options: ValidateRun,
             output: StudyOutput) -> int:
    """Compare strategies on your samples, and recommend one.

    Runs standard MBR, then each strategy that works with the metric, at several budgets. Reports
    how often a strategy finds the exact choice, how much utility it loses, how many pairs it
    evaluates and how long it takes. INPUT is JSON lines, as `minrisk decode` reads them. Strategies
    with a second metric are tried if that is given, as in --coarse chrf; strategies that choose
    sets, or do not approximate standard MBR, only if --strategy names them.
    """
    for path in output.plot:
        check_figure(path)
    corpus = segments.corpus()
    left_out: list[LeftOut] = []
    validating = Validating(
        corpus, metrics.make(), scope.strategy or None, scope, segments.weighting(corpus),
        left_out.append, metrics.further(scope.strategy, scope.seed))
    if left_out:
        command_progress(options.quiet).note(
            f"left out {', '.join(name for names, _ in left_out for name in names)}; "
            "--strategy NAME tries one of them, or says what it needs")
    done = execute(options, validating.job(options), written=output.plot)
    result = validating.result(options, done.values)
    for path in output.plot:
        result.plot(path)
    if output.format == "json":
        click.echo(json.dumps(result.as_json(), indent=1))
    else:
        head, _, below = str(result).partition("\n")
        click.echo(click.style(head, bold=True))
        click.echo(below)
    return done.code

