"""The command line: one command a file. Results on standard output, everything else on error."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

from minrisk._core.adapters import clear_metric_cache
from minrisk._core.errors import MinriskError
from minrisk.cli.comet import comet
from minrisk.cli.completion import completion
from minrisk.cli.decode import decode
from minrisk.cli.demo import demo
from minrisk.cli.export import export
from minrisk.cli.flags import as_flags
from minrisk.cli.list_command import KINDS, list_command, moved
from minrisk.cli.rank import rank
from minrisk.cli.sample import sample
from minrisk.cli.score import score
from minrisk.cli.serve import serve
from minrisk.cli.translate import translate
from minrisk.cli.validate import validate
from minrisk.version import __version__

MISUSE, INTERRUPTED, TERMINATED, CLOSED_PIPE = 2, 130, 143, 141  # as shells count them


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which then ends a run as Ctrl-C does: with whole outputs."""


class Commands(click.Group):
    """Ends quietly where a reader has seen enough (`| head`), with the code of such an end."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except BrokenPipeError:
            raise click.exceptions.Exit(CLOSED_PIPE) from None


@click.group(cls=Commands, invoke_without_command=True,
             context_settings={"help_option_names": ["-h", "--help"]})
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


for command in (decode, sample, translate, serve, score, validate, export, rank, list_command,
                demo, comet, completion, *map(moved, KINDS)):
    cli.add_command(command)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; no traceback for what the user can mend."""
    _prepare()
    try:
        given = None if args is None else list(args)
        code = cli.main(given, prog_name="minrisk", standalone_mode=False) or 0
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (MinriskError, OSError) as error:
        code = _fail(str(error))
    except click.Abort as end:
        code = TERMINATED if isinstance(end.__cause__, Terminated) else INTERRUPTED
    _forget_output()
    return int(code)


def _prepare() -> None:
    """Streams that are closed swallow what is written to them; warnings are one line."""
    clear_metric_cache()  # of an earlier run in this process, whose files may have changed
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - for the whole run
    warnings.showwarning = _tell_once()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):  # the second when a terminal is closed
            signal.signal(number, _terminate)


def _terminate(*_: object) -> None:
    raise Terminated


def _tell_once() -> Callable[..., None]:
    told: set[str] = set()

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in told:
            told.add(str(message))
            click.echo(f"minrisk: warning: {as_flags(str(message))}", err=True)

    return tell


def _fail(message: str) -> int:
    click.echo(f"minrisk: error: {as_flags(' '.join(message.split()))}", err=True)
    return MISUSE


def _forget_output() -> None:
    """Python writes what is left of standard output when it ends; that must not fail once more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
