"""`minrisk validate`: which strategy to trust, on samples and a metric of one's own."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from typing import Any

import click

from minrisk.cli.inputs import fraction_read, open_inputs
from minrisk.cli.method import StudyCommand, study_metrics
from minrisk.cli.progress import Progress
from minrisk.cli.recommendation import show
from minrisk.cli.shared import SETTINGS, FiniteRange, check_files, option
from minrisk.cli.weights import weight_options, weighting_of
from minrisk.decoding import METRIC
from minrisk.engine.batches import batches
from minrisk.errors import InputError
from minrisk.io.files import Input
from minrisk.io.journal import Journal
from minrisk.io.jsonl import JsonLines
from minrisk.io.record import Record, Weighting, placed
from minrisk.registry import STRATEGIES
from minrisk.segment import Segment
from minrisk.threads import set_threads
from minrisk.validation.budgets import OTHER_AIMS
from minrisk.validation.figure import check_figure, plot
from minrisk.validation.study import SegmentOutcomes, Study
from minrisk.validation.summary import summarise

_EXAMPLES = """\b
Examples:
  minrisk validate samples.jsonl --plot accuracy.png
  minrisk validate samples.jsonl --metric comet -o comet.jsonl --resume --tolerance 0.001
  minrisk validate samples.jsonl --strategy coarse-to-fine --coarse chrf --coarse.order 2"""


_TYPICAL = 32  # segments, of which the median size decides on the budgets

_method = partial(option, "Method")
_output = partial(option, "Output")
_run = partial(option, "Run")


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
         help="Every segment's results, as JSON lines.")
@_output("--resume", is_flag=True, help="Go on with what is in --output from an earlier run.")
@_output("--format", "form", type=click.Choice(["text", "json"]), default="text",
         show_default=True, help="Of the summary, on standard output.")
@_output("--plot", "plots", multiple=True, metavar="FILE", type=click.Path(),
         help="Draw accuracy over effective references; .png, .svg or .pdf. "
         "Needs minrisk[plot].")
@_run("--threads", type=int, metavar="T", help="Of the native core; one per core unless given.")
@_run("--config", metavar="FILE", type=click.Path(),
      help="YAML with any of these options; the command line wins.")
@_run("-q/ ", "--quiet/--no-quiet", help="Nothing on standard error but errors.")
@_run("--input", "configured", multiple=True, hidden=True)  # the key of a configuration file
def validate(**params: Any) -> None:
    """Try every strategy at every budget, and recommend one.

    On your samples and with your metric: runs standard MBR, then each strategy on the same
    features, and asks how often it finds the exact choice, how much utility it loses, how many
    pairs it evaluates and how long it takes. INPUT is JSON lines, as `minrisk decode` reads them.
    A strategy that needs a further metric is tried if that is given, as in --coarse chrf.
    """
    set_threads(params["threads"])
    if params["quiet"]:
        warnings.simplefilter("ignore")
    _check(params)
    weighting = weighting_of(params)
    inputs = open_inputs(params["inputs"] or params["configured"])
    progress = Progress(params["quiet"], partial(fraction_read, inputs))
    groups = batches(JsonLines(inputs, weighting, progress.note), _TYPICAL)
    first = next(groups, None)
    if first is None:
        raise InputError(f"{_names(inputs)}: no segments; wanted JSON lines with samples")
    records = islice(chain(first, chain.from_iterable(groups)), params["limit"])
    study = _study(params, weighting, first, progress)
    progress.note(study.signature)
    with ExitStack() as stack:
        path = params["output"]
        journal = stack.enter_context(Journal(path, params["resume"])) if path else None
        try:
            outcomes = _judge(study, records, journal, progress)
        except KeyboardInterrupt:
            hint = f"; --resume goes on with {path}" if path else ""
            click.echo(f"\nminrisk: interrupted after {progress.done} segments{hint}", err=True)
            raise
    progress.finish()
    summary = summarise(study.trials, outcomes, params["tolerance"])
    for path in params["plots"]:
        plot(summary, study, path)
    if params["form"] == "json":
        click.echo(json.dumps({"signature": study.signature} | summary.as_json(), indent=1))
    else:
        show(summary, study)


def _check(params: dict[str, Any]) -> None:
    if params["resume"] and not params["output"]:
        raise InputError("--resume needs --output, the file to go on with")
    paths = params["inputs"] or params["configured"]
    check_files([*paths, params["config"]], params["plots"])
    for path in params["plots"]:
        if path == params["output"]:
            raise InputError(f"--output and --plot are both {path}; name two files")
        check_figure(path)


def _names(inputs: Iterable[Input]) -> str:
    return ", ".join(source.name for source in inputs)


def _study(params: dict[str, Any], weighting: Weighting, first: Sequence[Record],
           progress: Progress) -> Study:
    metrics = study_metrics(params)
    comparable = [name for name in STRATEGIES.names() if name not in OTHER_AIMS]
    strategies = params["strategies"] or comparable
    for name in params["strategies"]:
        STRATEGIES.get(name)
    typical = [record.segment for record in first if isinstance(record.segment, Segment)]
    return Study(metrics.pop("metric"), typical or [_segment(first[0])], strategies,
                 params["top"], progress.note, seed=params["seed"], weights=str(weighting),
                 **metrics)


def _segment(record: Record) -> Segment:
    if isinstance(record.segment, InputError):
        raise record.segment
    return record.segment


def _judge(study: Study, records: Iterable[Record], journal: Journal | None,
           progress: Progress) -> list[SegmentOutcomes]:
    """The outcomes of each segment; those of an earlier run are not made again."""
    known = iter(_known(study, journal, progress) if journal else ())
    outcomes = []
    for record in records:
        entry = next(known, None)
        if entry is not None:
            outcomes.append(_again(entry, record))
            continue
        segment = _segment(record)
        with placed(record.where):
            outcomes.append(study.evaluate(segment))
        if journal:
            journal.append({"id": record.id} | outcomes[-1].as_json())
        progress.advance()
    return outcomes


def _again(entry: dict[str, Any], record: Record) -> SegmentOutcomes:
    if entry["id"] != record.id:
        raise InputError(f"{record.where}: segment {record.id!r} was {entry['id']!r} in the run to "
                         "resume; give it the same input, or another --output")
    return SegmentOutcomes.from_json(entry)


def _known(study: Study, journal: Journal, progress: Progress) -> list[dict[str, Any]]:
    """What an earlier run found, which must have been asked the same."""
    header = {"signature": study.signature, "trials": [trial.label for trial in study.trials]}
    entries = [entry for _, entry in journal]
    if not entries:
        journal.append(header)
        return []
    if entries[0] != header:
        raise InputError("--output is of a run with other options or another version; name "
                         "another file to start afresh")
    progress.note(f"resuming after {len(entries) - 1} segments")
    return entries[1:]
