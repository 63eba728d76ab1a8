"""`minrisk validate`: which strategy to trust, on samples and a metric of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import Any

import click

from minrisk._core.decoding import METRIC
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk.cli.method import StudyCommand, study_metrics
from minrisk.cli.progress import Progress
from minrisk.cli.recommendation import show
from minrisk.cli.running import Job, RunOptions, execute, run_options
from minrisk.cli.shared import SETTINGS, FiniteRange, input_files, option
from minrisk.cli.weights import weight_options, weighting_of
from minrisk.evaluation.budgets import OTHER_AIMS
from minrisk.evaluation.figure import check_figure, plot
from minrisk.evaluation.stages import Evaluate, OutcomesWriter, Peeked, read_outcomes
from minrisk.evaluation.study import Study
from minrisk.evaluation.summary import summarise
from minrisk.io.files import Input
from minrisk.io.jsonl import SampleReader
from minrisk.pipeline.stages import Write

_EXAMPLES = """\b
Examples:
  minrisk validate samples.jsonl --plot accuracy.png
  minrisk validate samples.jsonl --metric comet -o comet.jsonl --resume --tolerance 0.001
  minrisk validate samples.jsonl --strategy coarse-to-fine --coarse chrf --coarse.order 2"""


_method = partial(option, "Method")
_output = partial(option, "Output")


@click.command(cls=StudyCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=click.Path())
@_method("--metric", default=METRIC, show_default=True, metavar="NAME",
         help="What judges a hypothesis; fill its fields with --metric.FIELD.")
@_method("--strategy", "strategies", multiple=True, metavar="NAME",
         help="Try only this; several times for several. All unless given.")
@_method("--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="K",
         help="Also ask whether the exact choice is among the K best.")
@_method("--tolerance", type=FiniteRange(min=0), metavar="U",
         help="How much utility a strategy may lose to be recommended; 1% of what exact MBR gains "
         "over a sample at random unless given.")
@weight_options
@_method("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Of random choices.")
@_method("--limit", type=click.IntRange(min=1), metavar="N", help="Only so many segments.")
@_output("-o", "--output", metavar="FILE", type=click.Path(),
         help="Every segment's results, as JSON lines; --resume goes on with them.")
@_output("--format", "form", type=click.Choice(["text", "json"]), default="text",
         show_default=True, help="Of the summary, on standard output.")
@_output("--plot", "plots", multiple=True, metavar="FILE", type=click.Path(),
         help="Draw accuracy over effective references; .png, .svg or .pdf. "
         "Needs minrisk[plot].")
@run_options
@click.pass_context
def validate(ctx: click.Context, /, **params: Any) -> int:
    """Try every strategy at every budget, and recommend one.

    On your samples and with your metric: runs standard MBR, then each strategy on the same
    features, and asks how often it finds the exact choice, how much utility it loses, how many
    pairs it evaluates and how long it takes. INPUT is JSON lines, as `minrisk decode` reads them.
    A strategy that needs a further metric is tried if that is given, as in --coarse chrf.
    """
    results = StringIO()
    options = RunOptions.of(params | {"output": params["output"] or "-"})
    for path in params["plots"]:
        check_figure(path)
    files = tuple(input_files(params["inputs"] or params["configured"]))
    reader = Peeked(SampleReader(files, weighting_of(params)), params["limit"])
    study = _study(params, reader.typical(), options)
    done = execute(ctx, options, Job(
        files=files,
        reader=lambda files, number: reader,
        pools=lambda parse: [options.pool(parse, Evaluate(study), Write(OutcomesWriter()))],
        settings={"signature": study.signature,
                  "trials": [trial.label for trial in study.trials], "limit": params["limit"]},
        signatures=[study.signature],
        stream=None if params["output"] else results,
        also_written=params["plots"],
    ))
    found = Input(params["output"]) if params["output"] else results.getvalue().encode(
        "utf-8", "backslashreplace").splitlines()
    outcomes = list(read_outcomes(found, params["output"] or "the results", study))
    summary = summarise(study.trials, outcomes, params["tolerance"])
    for path in params["plots"]:
        plot(summary, study, path)
    if params["form"] == "json":
        click.echo(json.dumps({"signature": study.signature} | summary.as_json(), indent=1))
    else:
        show(summary, study)
    return done.code


def _study(params: dict[str, Any], typical: list[Segment], options: RunOptions) -> Study:
    metrics = study_metrics(params)
    comparable = [name for name in STRATEGIES.names() if name not in OTHER_AIMS]
    strategies = params["strategies"] or comparable
    for name in params["strategies"]:
        STRATEGIES.get(name)
    return Study(metrics.pop("metric"), typical, strategies, params["top"], _note(options),
                 seed=params["seed"], weights=str(weighting_of(params)), **metrics)


def _note(options: RunOptions) -> Callable[[str], None]:
    return Progress(options.quiet, lambda: None).note
