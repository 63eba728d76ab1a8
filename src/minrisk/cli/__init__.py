"""The command line: one command a file. Results on standard output, everything else on error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from minrisk.cli.completion import completion
from minrisk.cli.decode import decode
from minrisk.cli.demo import demo
from minrisk.cli.metrics import metrics
from minrisk.cli.strategies import strategies
from minrisk.errors import MinriskError
from minrisk.version import __version__

MISUSE, INTERRUPTED = 2, 130


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="minrisk")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Minimum Bayes Risk decoding: pick, from many samples of a text, the best one.

    \b
    minrisk decode samples.jsonl -o best.jsonl
    minrisk demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (decode, demo, metrics, strategies, completion):
    cli.add_command(command)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; no traceback for what the user can mend.

    A closed pipe (`| head`) ends the program quietly, which click sees to.
    """
    try:
        given = None if args is None else list(args)
        return cli.main(given, prog_name="minrisk", standalone_mode=False) or 0
    except click.ClickException as error:
        return _fail(error.format_message())
    except MinriskError as error:
        return _fail(str(error))
    except click.Abort:
        return INTERRUPTED


def _fail(message: str) -> int:
    click.echo(f"minrisk: error: {' '.join(message.split())}", err=True)
    _forget_output()
    return MISUSE


def _forget_output() -> None:
    """Python writes what is left of standard output when it ends; that must not fail once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
