"""`minrisk decode`: samples in, the best of each segment out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import click

from minrisk.arrays import Floats
from minrisk.cli.inputs import fraction_read, open_inputs
from minrisk.cli.method import MethodCommand, strategy_of
from minrisk.cli.progress import Progress
from minrisk.cli.scaling import crew_of, is_folder, scale_options, work_into_folder
from minrisk.cli.shared import (
    SETTINGS,
    bar_fits,
    check_files,
    code_for,
    names_of,
    option,
    summing_up,
)
from minrisk.cli.weights import weight_options, weighting_of
from minrisk.decoding import METRIC, STRATEGY
from minrisk.engine.batches import BATCH, LIGHT_BATCH
from minrisk.engine.ranking import run
from minrisk.engine.stages import Decode
from minrisk.errors import InputError, MinriskError
from minrisk.io.files import Input, Output
from minrisk.io.jsonl import JsonLines
from minrisk.io.lines import Column, read_lines
from minrisk.io.record import Record, Weighting, with_source
from minrisk.io.shards import expand
from minrisk.io.writer import MatrixWriter, SegmentWriter, Sink, Writer
from minrisk.pool import bind
from minrisk.registry import METRICS, STRATEGIES
from minrisk.segment import Segment
from minrisk.signature import settings, signature
from minrisk.strategies.confident import Confident
from minrisk.strategy import Strategy
from minrisk.threads import set_threads

W = TypeVar("W", bound=SegmentWriter)

_POSITIVE = click.IntRange(min=1)
_TEXT = "Plain text (N lines per segment; JSON lines otherwise)"
_EXAMPLES = """\b
Examples:
  minrisk decode samples.jsonl -o best.jsonl
  minrisk decode samples.jsonl.xz --strategy aggregate-to-fine --keep 20
  minrisk decode hyps.txt -n 1024 --source src.txt --format text > best.txt
  sampler | minrisk decode --metric chrf --metric.word-order 2 | head -3"""


_method = partial(option, "Method")
_text = partial(option, _TEXT)
_output = partial(option, "Output")
_run = partial(option, "Run")


@click.command(cls=MethodCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=click.Path())
@_method("--metric", default=METRIC, show_default=True, shell_complete=names_of(METRICS),
         help="What judges a hypothesis; fill its fields with --metric.FIELD.")
@_method("--strategy", default=STRATEGY, show_default=True, shell_complete=names_of(STRATEGIES),
         help="How utilities are computed; fill its fields with --FIELD.")
@weight_options
@_method("--oracle", metavar="FIELD", help="Judge by the human references in this field of INPUT "
         "(a text or a list) instead of by samples: the most that choosing could reach.")
@_method("--seed", type=click.IntRange(min=0), metavar="S",
         help="For strategies that draw at random.")
@_text("-n", "--num-candidates", "--num-samples", type=_POSITIVE, metavar="N",
       help="Lines of INPUT per segment; INPUT is plain text if this is given.")
@_text("-s", "--source", metavar="FILE", type=click.Path(), help="One line per segment.")
@_text("-r", "--references", metavar="FILE", type=click.Path(),
       help="References, if not the hypotheses themselves.")
@_text("--num-references", type=_POSITIVE, metavar="N",
       help="Lines of references per segment; N of the hypotheses unless given.")
@_text("--reference-lprobs", metavar="FILE", type=click.Path(),
       help="A log-probability per line and reference; weighs them, unless --weights uniform.")
@_output("-o", "--output", default="-", metavar="FILE", type=click.Path(),
         help="Standard output unless given; compressed if it ends in .gz, .xz or .zst. A folder "
         "(out/, s3://bucket/out/) gets a file for each INPUT.")
@_output("--format", "form", type=click.Choice(["json", "text"]), default="json",
         show_default=True, help="JSON lines, or one line of text per segment.")
@_output("--nbest", type=_POSITIVE, metavar="K", help="Add the K best of each segment.")
@_output("--utilities/--no-utilities",
         help="Add the utilities of all hypotheses, and how many pairs were evaluated for them.")
@_output("--confidence/--no-confidence",
         help="Add how sure each choice is: its margin, and the probability that references drawn "
         "again would give the same.")
@_output("--matrix", metavar="FILE", type=click.Path(),
         help="Write all scores to an .npz: an array (hypotheses, references) per segment.")
@_run("--on-error", type=click.Choice(["stop", "skip"]),
      help="Skip records the error of a segment in the output and goes on.  "
      "[default: stop; skip with a folder]")
@_run("--resume/--no-resume", help="Go on with an interrupted folder: what is finished stays.")
@_run("--batch-size", type=_POSITIVE, metavar="B", help="Segments per batch; chosen by the metric.")
@_run("--threads", type=int, metavar="T", help="Of the native core; one per core unless given.")
@_run("--config", metavar="FILE", type=click.Path(),
      help="YAML with any of these options; the command line wins.")
@_run("-q/ ", "--quiet/--no-quiet", help="Nothing on standard error but errors.")
@scale_options
@_run("-t", "typed", multiple=True, hidden=True)  # comet-mbr's name for INPUT
@_run("--input", "configured", multiple=True, hidden=True)  # the key of a configuration file
@click.pass_context
def decode(ctx: click.Context, /, **params: Any) -> int:
    """Pick the best hypothesis of every segment.

    INPUT is JSON lines: {"samples": ["...", ...]}, and where there are some "id", "source",
    "counts" (of equal samples), "references", "weights" or "logprobs" (and "lengths"); other fields
    pass through to the output. Several files are read one after the other; `-`, or none, is
    standard input. Files may be compressed with gz, xz or zst, or be Parquet, or URLs.

    With a folder as output, INPUT may be patterns; segments are numbered within each file, those
    that failed are also in errors.jsonl, and an interrupted run goes on with --resume.
    """
    if params["form"] == "text" and (
            params["nbest"] or params["utilities"] or params["confidence"]):
        raise InputError("--nbest, --utilities and --confidence need --format json; "
                         "text has one line per segment")
    writer = partial(Writer, form=params["form"], nbest=params["nbest"],
                     utilities=params["utilities"])
    if is_folder(params, "resume"):
        return _decode_shards(ctx, params, writer)
    return decode_into(ctx, params, writer)[1]


def decode_into(ctx: click.Context, params: dict[str, Any], make_writer: Callable[[Output], W],
                needs_source: bool = False) -> tuple[W, int]:
    """Decode as the options say; the writer of the output, which got the rankings, and the code."""
    set_threads(params["threads"])
    if params["quiet"]:
        warnings.simplefilter("ignore")
    strategy = strategy_of(params)
    weighting = weighting_of(params)
    inputs = open_inputs(expand(_paths(params)))
    read = partial(fraction_read, inputs)
    progress = Progress(params["quiet"], read, bar_fits(params["output"]))
    records = _records(inputs, weighting, params, progress)
    if needs_source:
        records = map(with_source, records)
    _check_output(params, inputs)
    progress.note(_signature(strategy, weighting, params))
    with summing_up(ctx, progress, params["output"]):
        writer = _decode(_confident(strategy, params), records, params, progress, make_writer)
    return writer, code_for(progress.failed)


def _decode_shards(ctx: click.Context, params: dict[str, Any],
                   writer: Callable[[Sink], Writer]) -> int:
    for name in ("num_candidates", "source", "references", "num_references", "reference_lprobs",
                 "matrix"):
        if params[name] is not None:
            raise InputError(f"--{name.replace('_', '-')} goes with one output; "
                             "a folder is made of JSON lines, file by file")
    strategy, weighting = strategy_of(params), weighting_of(params)
    _check_oracle(params, weighting)
    stage = Decode(_confident(strategy, params), writer, weighting, params["oracle"],
                   params["batch_size"])
    output = ("form", "nbest", "utilities", "confidence", "oracle")
    made = settings(strategy) | {"weights": weighting} | {name: params[name] for name in output}
    return work_into_folder(ctx, params, _paths(params), [crew_of(params, stage)], made,
                            [_signature(strategy, weighting, params)],
                            batch_size=LIGHT_BATCH if stage.is_light else BATCH)


def _paths(params: dict[str, Any]) -> list[str]:
    return [*params["inputs"], *params["typed"]] or list(params["configured"])


def _confident(strategy: Strategy, params: dict[str, Any]) -> Strategy:
    return Confident(strategy, seed=params["seed"] or 0) if params.get("confidence") else strategy


def _decode(strategy: Strategy, records: Iterable[Record], params: dict[str, Any],
            progress: Progress, make_writer: Callable[[Output], W]) -> W:
    with ExitStack() as stack:
        # the matrix first: if its path is bad, an old output is still there
        path = params["matrix"]
        matrix = stack.enter_context(MatrixWriter(path)) if path else None
        writer = make_writer(stack.enter_context(Output(params["output"])))
        for record, result in run(strategy, records, params["batch_size"],
                                  params["on_error"] or "stop"):
            if isinstance(result, MinriskError):
                writer.fail(record, result)
            else:
                if matrix:
                    matrix.write(*_scores(strategy, record))
                writer.write(record, result)
                progress.count(pairs=result.pairs)
            progress.advance(failed=isinstance(result, MinriskError))
        return writer


def _signature(strategy: Strategy, weighting: Weighting, params: dict[str, Any]) -> str:
    oracle = {"oracle": params["oracle"]} if params["oracle"] else {}
    return signature(strategy, weights=weighting, **oracle)


def _scores(strategy: Strategy, record: Record) -> tuple[int, Floats]:
    """The segment's place in the input, and the scores (H, R) of all its pairs."""
    assert isinstance(record.segment, Segment)
    (pool,) = bind(strategy.metric, [record.segment])
    return record.segment.index, pool.scores()


def _records(inputs: list[Input], weighting: Weighting, params: dict[str, Any],
             progress: Progress) -> Iterable[Record]:
    size = params["num_candidates"]
    if size is None:
        for name in ("source", "references", "num_references", "reference_lprobs"):
            if params[name] is not None:
                raise InputError(f"--{name.replace('_', '-')} goes with plain text, which needs "
                                 "--num-candidates; JSON lines carry their own fields")
        _check_oracle(params, weighting)
        return JsonLines(inputs, weighting, progress.note, params["oracle"])
    if params["oracle"]:
        raise InputError("--oracle names a field of JSON lines; for plain text, give the human "
                         "references as --references FILE with --num-references 1")
    return _text_records(inputs, size, weighting, params)


def _check_oracle(params: dict[str, Any], weighting: Weighting) -> None:
    if params["oracle"] and weighting.by_logprobs:
        raise InputError(f"--weights {weighting.by} weighs samples; with --oracle there are "
                         "none to weigh: leave one of them out")


def _text_records(inputs: list[Input], size: int, weighting: Weighting,
                  params: dict[str, Any]) -> Iterable[Record]:
    refs, lprobs = params["references"], params["reference_lprobs"]
    if weighting.by_logprobs and not lprobs:
        raise InputError(f"--weights {weighting.by} needs --reference-lprobs "
                         "where INPUT is plain text")
    count = params["num_references"] or size
    if not refs and count != size:
        raise InputError("--num-references needs --references; "
                         "otherwise the references are the hypotheses")
    return read_lines(
        Column(inputs, size, "--num-candidates"),
        _column(params["source"], 1, ""),
        _column(refs, count, "--num-references"),
        _column(None if weighting.by == "uniform" else lprobs, count, "--num-references"),
        weighting,
    )


def _column(path: str | None, size: int, option: str) -> Column | None:
    return Column([Input(path)], size, option) if path else None


def _check_output(params: dict[str, Any], inputs: list[Input]) -> None:
    if params["matrix"] == "-":
        raise InputError("--matrix needs a file; standard output takes no .npz")
    if params["matrix"] and _same_place(params["matrix"], params["output"]):
        raise InputError(f"--output and --matrix are both {params['matrix']}; name two files")
    others = [params[name] for name in ("source", "references", "reference_lprobs", "config")]
    check_files([*(source.path for source in inputs), *others],
                [params["output"], params["matrix"]])


def _same_place(one: str, other: str) -> bool:
    return other != "-" and os.path.realpath(one) == os.path.realpath(other)
