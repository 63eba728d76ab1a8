"""`minrisk rank`: the hypotheses of one segment, by references in any number of files."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk._core.decoding import METRIC, make_strategy
from minrisk._core.errors import InputError
from minrisk._core.reference_parts import PartsDecoder
from minrisk._core.registry import METRICS
from minrisk._core.segment import Segment
from minrisk._core.signature import signature
from minrisk.cli.method import MetricCommand, metrics_of
from minrisk.cli.progress import Progress
from minrisk.cli.running import RunOptions, summing_up
from minrisk.cli.shared import SETTINGS, bar_fits, check_files, names_of, option
from minrisk.io.files import Output
from minrisk.io.inputs import InputFile, open_input
from minrisk.io.jsonl import SampleReader, parse
from minrisk.io.prompts import is_json
from minrisk.io.record import Record, at
from minrisk.io.references import ReferenceFile
from minrisk.io.writer import ChoiceWriter
from minrisk.pipeline.references import as_parts_strategy, make_runner, sum_parts

_EXAMPLES = """\b
Examples:
  minrisk rank hyps.txt references/*.txt.zst --workers 8
  minrisk rank segment.jsonl more-samples-*.jsonl --strategy standard --nbest 5
  minrisk rank hyps.txt s3://bucket/part-0.parquet s3://bucket/part-1.parquet --engine ray"""

_POSITIVE = click.IntRange(min=1)
_method = partial(option, "Method")
_output = partial(option, "Output")
_run = partial(option, "Run")


@click.command(cls=MetricCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("hypotheses", type=click.Path())
@click.argument("references", nargs=-1, required=True, type=click.Path())
@_method("--metric", default=METRIC, show_default=True, shell_complete=names_of(METRICS),
         help="What judges a hypothesis; fill its fields with --metric.FIELD.")
@_method("--strategy", default="aggregate", show_default=True,
         type=click.Choice(["aggregate", "standard"]),
         help="Against the average of all references, or exactly against each.")
@_output("-o", "--output", default="-", metavar="FILE", type=click.Path(),
         help="Standard output unless given; compressed if it ends in .gz, .xz or .zst.")
@_output("--nbest", type=_POSITIVE, metavar="K", help="Add the K best.")
@_output("--utilities/--no-utilities",
         help="Add the utilities of all hypotheses, and how many pairs were evaluated for them.")
@_run("--workers", type=_POSITIVE, metavar="W",
      help="Processes that read files at once; 1 unless given, or all cores of a Ray cluster.")
@_run("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
      help="Processes of this machine, or tasks on Ray (minrisk[ray]).")
@_run("--address", metavar="A", help="Of a Ray cluster; one of this machine's own unless given.")
@_run("--gpus-per-worker", type=click.FloatRange(min=0), default=0, metavar="G",
      help="GPUs of each worker; may be a fraction.")
@_run("--threads", type=int, metavar="T", help="Of the native core; one per core unless given.")
@_run("-q/ ", "--quiet/--no-quiet", help="Nothing on standard error but errors.")
@click.pass_context
def rank(ctx: click.Context, /, **params: Any) -> None:
    """Rank the hypotheses of one segment by references in any number of files.

    HYPOTHESES is plain text with one a line, or a line of JSON as `decode` reads it, with its
    source if the metric needs one. REFERENCES are plain text with one a line, or JSON lines (or
    Parquet) with lists of "references" or "samples", and "weights" or "counts" where there are
    some. Files may be compressed, or URLs. They are read once, a part at a time, by as many workers
    as there are: any number of references fits into memory.
    """
    options = RunOptions.of(params)
    check_files([params["hypotheses"], *params["references"]], [options.output])
    _check_references(params)
    [metric] = metrics_of(params | {"metric": [params["metric"]]})
    strategy = make_strategy(params["strategy"], metric)
    record = _hypotheses(params["hypotheses"])
    assert record.segment is not None
    gpus = options.gpus_per_worker or 0
    runner = make_runner(options.engine or "local", options.workers, options.address, gpus)
    progress = Progress(options.quiet, lambda: None, bar_fits(options.output))
    progress.note(signature(strategy))
    with summing_up(ctx, progress, options):
        decoder = PartsDecoder(as_parts_strategy(strategy), record.segment)
        files = tuple(ReferenceFile(InputFile.at(path).location, path)
                      for path in params["references"])
        with redirect_stdout(sys.stderr):  # what a metric prints is no result
            part = sum_parts(decoder, files, runner, options.workers, gpus)
        ranking = decoder.ranking(part)
        with Output(options.output) as output:
            writer = ChoiceWriter(nbest=params["nbest"], utilities=params["utilities"])
            output.write(writer(replace(record, ranking=ranking)))
        progress.count(references=part.count, pairs=ranking.pairs)
        progress.advance()


def _hypotheses(path: str) -> Record:
    """The one segment that is to be ranked."""
    source = open_input(path)
    texts = [source.text(line, number) for number, line in enumerate(source, 1)]
    record = Record(0, 0, source.name, 1)
    if not is_json("auto", path, texts[0].encode() if texts else b""):
        with at(source.name):
            return replace(record, segment=Segment(texts))
    objects = [text for text in texts if text.strip()]
    if len(objects) != 1:
        raise InputError(f"{source.name} has {len(objects)} segments, wanted one")
    with at(source.name):
        record = SampleReader(()).parse_fields(parse(objects[0], "name it .txt"), record)
        if record.error:
            raise record.error
    return record


def _check_references(params: dict[str, Any]) -> None:
    """All of them, before the work begins."""
    for path in params["references"]:
        open_input(path)
    if "-" in params["references"] and (params["engine"] != "local" or params["workers"]):
        raise InputError("standard input is read by this process alone; "
                         "leave --workers and --engine out, or name files")
