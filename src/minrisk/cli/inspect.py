"""`minrisk inspect`: samples in, one page out that shows why each was chosen."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk._core.decoding import METRIC, STRATEGY
from minrisk._core.errors import InputError
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.signature import signature
from minrisk.cli.method import MethodCommand, strategy_of
from minrisk.cli.running import Job, RunOptions, execute, run_options, scale_options
from minrisk.cli.shared import SETTINGS, input_files, names_of, option
from minrisk.cli.weights import weight_options, weighting_of
from minrisk.io.files import Input, check_writable
from minrisk.io.inputs import InputFile
from minrisk.io.jsonl import parse, show
from minrisk.io.record import at
from minrisk.io.remote import shown
from minrisk.pipeline.stages import Write
from minrisk.report.inspecting import page_facts
from minrisk.report.page import PageBuilder, check_target, is_large, save_page
from minrisk.report.stages import Examine, LogprobReader, ViewWriter
from minrisk.report.views import REFERENCE, View

_EXAMPLES = """\b
Examples:
  minrisk inspect samples.jsonl -o report.html
  minrisk inspect samples.jsonl --metric comet --against beam=beam.txt -r ref.txt -o report.html
  minrisk validate samples.jsonl -o validation.jsonl
  minrisk inspect samples.jsonl --validation validation.jsonl -o report.html"""

_OTHERS = ("resume", "overwrite")  # a page is made in one go
_method = partial(option, "Method")
_input = partial(option, "Input")
_output = partial(option, "Output")


@click.command(cls=MethodCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=click.Path())
@_method("--metric", default=METRIC, show_default=True, shell_complete=names_of(METRICS),
         help="What judges a hypothesis; fill its fields with --metric.FIELD.")
@_method("--strategy", default=STRATEGY, show_default=True, shell_complete=names_of(STRATEGIES),
         help="How utilities are computed; fill its fields with --FIELD.")
@weight_options
@_method("--seed", type=click.IntRange(min=0), metavar="S",
         help="Seed of random choices, and of the sample at random that the choice is compared "
         "with.")
@_input("--against", multiple=True, metavar="[NAME=]FILE",
        help="Output of another system, to compare the choice with: a line of text per segment, or "
        "JSON lines as `minrisk decode` writes them; several times for several.")
@_input("-r", "--references", multiple=True, metavar="FILE", type=click.Path(),
        help="Human references, a line per segment; several times for several.")
@_input("--reference-field", default=REFERENCE, show_default=True, metavar="FIELD",
        help="Field of INPUT with a human reference, or a list of them.")
@_input("--validation", metavar="FILE", type=click.Path(),
        help="Results of `minrisk validate -o FILE`, for the chart of strategies.")
@_output("-o", "--output", required=True, metavar="FILE", type=click.Path(),
         help="The page. It is written when it is whole, and replaces one that is there.")
@_output("--show", type=click.IntRange(min=1), default=16, show_default=True, metavar="K",
         help="Number of samples of each segment in the page: the best, and with them the worst, "
         "the most probable and the best of other meanings.")
@_output("--title", metavar="TEXT", help="Title of the page; the name of INPUT unless given.")
@run_options
@scale_options
@click.pass_context
def inspect(ctx: click.Context, /, **params: Any) -> int:
    """Make one page that shows why each sample was chosen.

    INPUT is JSON lines, as `minrisk decode` reads them, or records of `minrisk serve --record`. The
    page is a single file that opens without a server and without the network. Fields `beam`,
    `beam5`, `greedy` and the like are outputs to compare the choice with, as those of --against.
    """
    path = params["output"]
    check_target(path)
    check_writable(path)
    options = RunOptions.of(params | {"output": "-"})
    strategy, view = strategy_of(params), _view(params)
    files = input_files(params["inputs"] or params["configured"])
    facts = page_facts(strategy, view, params["title"] or _title(files), params["validation"])
    with PageBuilder() as builder:
        done = execute(ctx, options, Job(
            files=files,
            reader=lambda files, number: LogprobReader(files, weighting_of(params)),
            pools=lambda parse: [options.pool(
                parse, Examine(strategy, view, options.batch_size, options.on_error),
                Write(ViewWriter()))],
            settings={},
            signatures=[signature(strategy, weights=weighting_of(params))],
            stream=builder,
            also_written=[path],
        ))
        view.check(done.counts["segments"])
        size = save_page(builder.chunks(strategy.metric, **facts), path)
    _tell_size(path, size, params)
    return done.code


def _tell_size(path: str, size: int, params: dict[str, Any]) -> None:
    if not params["quiet"]:
        click.echo(f"minrisk: {shown(path)}: {size / 10**6:.1f} MB", err=True)
    if is_large(size):
        warnings.warn(f"{shown(path)} has {size / 10**6:.0f} MB and takes long to open; lower "
                      f"--show {params['show']}, or inspect a part of the segments", stacklevel=2)


def _view(params: dict[str, Any]) -> View:
    against = dict(map(_named, params["against"]))
    if len(against) < len(params["against"]):
        raise InputError("--against: two outputs have the same name; name them, as in "
                         "--against NAME=FILE")
    return replace(
        View(), show=params["show"], field=params["reference_field"], seed=params["seed"] or 0,
        against={name: _output_lines(path) for name, path in against.items()},
        references=[_text_lines(path) for path in params["references"]])


def _named(given: str) -> tuple[str, str]:
    name, equals, path = given.partition("=")
    if equals and not os.path.exists(given) and "://" not in name:
        return name, path
    return os.path.basename(given), given


def _text_lines(path: str) -> list[str]:
    source = Input(path)
    return [source.text(line) for line in source]


def _output_lines(path: str) -> list[str]:
    """Of plain text, or the texts of JSON lines."""
    source = InputFile.at(path).open()
    lines = [source.text(line) for line in source]
    if not (source.has_fields or (lines and lines[0].lstrip().startswith("{"))):
        return lines
    return [_text(line, f"{source.name}:{number}") for number, line in enumerate(lines, 1)
            if line.strip()]


def _text(line: str, where: str) -> str:
    with at(where):
        fields = parse(line, "let no line begin with {")
        found = fields.get("text", "" if "error" in fields else None)
        if not isinstance(found, str):
            raise InputError(f"found text {show(found)}, wanted a string, as `minrisk decode` "
                             "writes it")
        return found


def _title(files: Sequence[InputFile]) -> str:
    names = [file.name.rpartition("/")[2] for file in files]
    return ", ".join("standard input" if name == "-" else name for name in names)


inspect.params = [param for param in inspect.params if param.name not in _OTHERS]
