"""`minrisk inspect`: a page that shows why each sample was chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from minrisk._core.errors import InputError, warn
from minrisk._core.options import flag
from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.decode import JsonInput
from minrisk.cli.execute import CommandRun, execute
from minrisk.evaluation.metric_bias import bias_message, origin_of
from minrisk.io import remote
from minrisk.io.files import Input, check_writable
from minrisk.io.segments import output_texts
from minrisk.io.store import check_new, write_whole
from minrisk.report.page import LARGE, PageBuilder, check_target
from minrisk.report.records import PageReader
from minrisk.report.views import CHOICE, View
from minrisk.tasks.inspect import Inspecting, PageOptions


@dataclass(frozen=True)
class InspectInput(JsonInput):
    against: tuple[str, ...] = flag(
        (), section="Input", metavar="[NAME=]FILE",
        help="Output of another system to compare with: one line per segment, or JSON lines as "
        "`decode` writes them; may be repeated.")
    references: tuple[str, ...] = flag(
        (), "-r", section="Input", metavar="FILE",
        help="Human references, one line per segment; may be repeated.")

    def view(self, page: PageOptions, seed: int) -> View:
        against = dict(map(_named, self.against))
        if len(against) < len(self.against):
            raise InputError("--against: two outputs have the same name; give them names, as in "
                             "--against NAME=FILE")
        return View(show=page.show, field=page.reference_field, seed=seed,
                    against={name: output_texts(path) for name, path in against.items()},
                    origins={name: origin_of(path) for name, path in against.items()},
                    references=[list(Input(path).texts()) for path in self.references])


@dataclass(frozen=True)
class InspectRun(CommandRun):
    output: str = flag("report.html", "-o", section="Output", metavar="FILE",
                       help="HTML file; it only appears when it is complete.")

    def check_target(self) -> None:
        check_target(self.output)
        check_new(self.output, self.overwrite)
        check_writable(self.output)


@command(without=("resume",), examples="""\
  minrisk inspect samples.jsonl -o report.html
  minrisk inspect samples.jsonl --metric comet --against beam=beam.txt -r ref.txt -o report.html
  minrisk inspect samples.jsonl --validation validation.jsonl -o report.html --overwrite""")
def inspect(method: StrategyOptions, segments: InspectInput, options: InspectRun,
            output: PageOptions) -> int:
    """Write an HTML page that shows why each sample was chosen.

    INPUT is JSON lines, as `minrisk decode` reads them. The page is a single file that needs
    neither a server nor the network. Fields such as `beam`, `beam5` and `greedy` are compared with
    the choice, like outputs given as --against.
    """
    options.check_target()
    decoding = segments.decoding(segments.corpus(), method.make(), PageReader)
    inspecting = Inspecting(decoding, segments.view(output, method.seed or 0), output)
    with PageBuilder() as builder:
        run = replace(options, output="-", overwrite=False)
        done = execute(run, inspecting.job(run, builder), written=[options.output])
        size = write_whole(options.output, inspecting.page(builder, done.counts["segments"]))
        _print_bias(builder.biased, options.quiet)
    _print_size(options.output, size, output.show, options.quiet)
    return done.code


def _print_bias(biased: Mapping[str, Sequence[str]], quiet: bool) -> None:
    """Print notes rather than warnings: the page always judges the choice by its own metric."""
    for system, metrics in {} if quiet else biased.items():
        name = "the output of this run" if system == CHOICE else system
        click.echo(f"minrisk: {bias_message(name, metrics)}", err=True)


def _print_size(path: str, size: int, show: int, quiet: bool) -> None:
    if not quiet:
        click.echo(f"minrisk: {remote.redact_url(path)}: {size / 10**6:.1f} MB", err=True)
    if size > LARGE:
        warn(f"{remote.redact_url(path)} has {size / 10**6:.0f} MB and opens slowly; lower --show "
             f"{show}, or inspect fewer segments")


def _named(given: str) -> tuple[str, str]:
    name, equals, path = given.partition("=")
    if equals and not os.path.exists(given) and "://" not in name:
        return name, path
    return os.path.basename(given), given
