"""`minrisk decode`: samples in, the best of each segment out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from minrisk._core.decoding import METRIC, STRATEGY
from minrisk._core.errors import InputError
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.signature import settings as signature_settings
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.cli.method import MethodCommand, strategy_of
from minrisk.cli.running import Job, RunOptions, execute, output_option, run_options, scale_options
from minrisk.cli.shared import SETTINGS, input_files, names_of, option
from minrisk.cli.weights import weight_options, weighting_of
from minrisk.io.inputs import InputFile, expand
from minrisk.io.jsonl import SampleReader
from minrisk.io.lines import Column, TextReader
from minrisk.io.record import Reader, Weighting
from minrisk.io.writer import ChoiceWriter, Writer
from minrisk.pipeline.batches import BATCH, LIGHT_BLOCK
from minrisk.pipeline.stages import Decode, Stage, Write
from minrisk.strategies.confident import Confident

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
@output_option
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
@run_options
@scale_options
@_run("-t", "typed", multiple=True, hidden=True)  # comet-mbr's name for INPUT
@click.pass_context
def decode(ctx: click.Context, /, **params: Any) -> int:
    """Pick the best hypothesis of every segment.

    INPUT is JSON lines: {"samples": ["...", ...]}, and where there are some "id", "source",
    "counts" (of equal samples), "references", "weights" or "logprobs" (and "lengths"); other fields
    pass through to the output. Files may be compressed with gz, xz or zst, or be Parquet, or URLs,
    or patterns. Several files are read one after the other into one output, or each into its own
    file of a folder; `-`, or none, is standard input.

    A finished output appears whole; until then, and where segments failed, --resume goes on.
    """
    options = RunOptions.of(params)
    if params["form"] == "text" and (
            params["nbest"] or params["utilities"] or params["confidence"]):
        raise InputError("--nbest, --utilities and --confidence need --format json; "
                         "text has one line per segment")
    writer = ChoiceWriter(params["form"], params["nbest"], params["utilities"])
    output = {name: params[name] for name in ("form", "nbest", "utilities", "confidence")}
    extension = ".txt" if params["form"] == "text" else ".jsonl"
    return execute(ctx, options, decode_job(params, options, writer, output, extension)).code


def decode_job(params: dict[str, Any], options: RunOptions, writer: Writer,
               output: dict[str, Any], extension: str, *checks: Stage) -> Job:
    """What `decode` and what is like it do, with this writer."""
    strategy, weighting = strategy_of(params), weighting_of(params)
    _check_input(params, weighting)
    choose = Decode(_confident(strategy, params), options.batch_size, options.on_error,
                    scores=params["matrix"] is not None)
    columns = {name: tuple(map(InputFile.at, expand([params[name]])))
               for name in _COLUMNS if params[name] is not None}
    settings = (signature_settings(strategy) | {"weights": weighting, "oracle": params["oracle"]}
                | output | _confidence_seed(params) | _text_settings(params))
    oracle = {"oracle": params["oracle"]} if params["oracle"] else {}
    return Job(
        files=input_files(_paths(params)),
        reader=partial(_reader, params, weighting, columns),
        pools=lambda parse: [options.pool(parse, *checks, choose, Write(writer))],
        settings=settings,
        signatures=[signature(strategy, weights=weighting, **oracle)],
        extension=extension,
        block=LIGHT_BLOCK if choose.is_light else BATCH,
        matrix=params["matrix"],
        also_read=[file for files in columns.values() for file in files],
    )


def _paths(params: dict[str, Any]) -> list[str]:
    return [*params["inputs"], *params["typed"]] or list(params["configured"])


def _confident(strategy: Strategy, params: dict[str, Any]) -> Strategy:
    return Confident(strategy, seed=params["seed"] or 0) if params.get("confidence") else strategy


def _confidence_seed(params: dict[str, Any]) -> dict[str, Any]:
    """Which the strategy may not have."""
    return {"confidence.seed": params["seed"] or 0} if params.get("confidence") else {}


def _reader(params: dict[str, Any], weighting: Weighting,
            columns: Mapping[str, tuple[InputFile, ...]], files: tuple[InputFile, ...],
            number: int | None) -> Reader:
    """Of these files, which are number so-and-so of the input, or all of it."""
    size = params["num_candidates"]
    if size is None:
        return SampleReader(files, weighting, params["oracle"])
    count = params["num_references"] or size
    has_logprobs = weighting.by != "uniform"
    return TextReader(
        Column(files, size, "--num-candidates"),
        _column(columns, "source", 1, "--source", number),
        _column(columns, "references", count, "--num-references", number),
        _column(columns, "reference_lprobs", count, "--num-references", number)
        if has_logprobs else None,
        weighting,
    )


def _column(columns: Mapping[str, tuple[InputFile, ...]], name: str, size: int, option: str,
            number: int | None) -> Column | None:
    """A file for all of the input, or for each of its files one of those that a pattern names."""
    files = columns.get(name)
    if files is None or number is None:
        return Column(files, size, option) if files else None
    if number >= len(files):
        flag = f"--{name.replace('_', '-')}"
        raise InputError(f"{flag} names {len(files)} files; for a folder as output, one for each "
                         "INPUT is wanted, in the same order")
    return Column(files[number:number + 1], size, option)


_COLUMNS = ("source", "references", "reference_lprobs")  # the further files of plain text
_TEXT_ONLY = (*_COLUMNS, "num_references")


def _text_settings(params: dict[str, Any]) -> dict[str, Any]:
    names = (*_TEXT_ONLY, "num_candidates")
    return {name: params[name] for name in names if params[name] is not None}


def _check_input(params: dict[str, Any], weighting: Weighting) -> None:
    if params["num_candidates"] is None:
        for name in _TEXT_ONLY:
            if params[name] is not None:
                raise InputError(f"--{name.replace('_', '-')} goes with plain text, which needs "
                                 "--num-candidates; JSON lines carry their own fields")
        if params["oracle"] and weighting.by_logprobs:
            raise InputError(f"--weights {weighting.by} weighs samples; with --oracle there are "
                             "none to weigh: leave one of them out")
        return
    if params["oracle"]:
        raise InputError("--oracle names a field of JSON lines; for plain text, give the human "
                         "references as --references FILE with --num-references 1")
    if weighting.by_logprobs and not params["reference_lprobs"]:
        raise InputError(f"--weights {weighting.by} needs --reference-lprobs "
                         "where INPUT is plain text")
    if not params["references"] and params["num_references"] not in (None,
                                                                     params["num_candidates"]):
        raise InputError("--num-references needs --references; "
                         "otherwise the references are the hypotheses")
