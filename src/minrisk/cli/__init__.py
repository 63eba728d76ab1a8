"""The command line. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from minrisk._core.errors import InputError, MinriskError, unknown
from minrisk._core.process import own_process
from minrisk.version import __version__

# exit codes
MISUSE = 2
SOME_FAILED = WRONG_NUMBERS = 3
INTERRUPTED, CLOSED_PIPE, TERMINATED = 130, 141, 143  # 128 + number of the signal

MEANINGS = {  # shown in the manual
    0: "everything was done",
    MISUSE: "wrong options or input, a missing package or a file that cannot be read: the message "
            "says what to do; finished segments are kept",
    SOME_FAILED: "the run is finished, but some segments failed and are in the output as errors; "
                 "from `doctor`, a score differs from the expected one",
    INTERRUPTED: "interrupted by Ctrl-C; `--resume` continues",
    CLOSED_PIPE: "the reader of standard output went away, as `head` does",
    TERMINATED: "ended by SIGTERM or SIGHUP; `--resume` continues",
}

_COMMANDS = {  # imported when first used
    "decode": "minrisk.cli.decode:decode",
    "sample": "minrisk.cli.sample:sample",
    "translate": "minrisk.cli.sample:translate",
    "answer": "minrisk.cli.sample:answer",
    "serve": "minrisk.cli.serve:serve",
    "score": "minrisk.cli.score:score",
    "validate": "minrisk.cli.validate:validate",
    "calibrate": "minrisk.cli.calibrate:calibrate",
    "inspect": "minrisk.cli.inspect:inspect",
    "export": "minrisk.cli.decode:export",
    "rank": "minrisk.cli.rank:rank",
    "list": "minrisk.cli.utilities:list_command",
    "demo": "minrisk.cli.demo:demo",
    "doctor": "minrisk.cli.doctor:doctor",
    "comet": "minrisk.cli.utilities:comet",
    "completion": "minrisk.cli.utilities:completion",
}
_MOVED = {"metrics": "list metrics", "strategies": "list strategies",
          "samplers": "list samplers"}


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP; ends a run like Ctrl-C, so that no output is left half-written."""


class Commands(click.Group):
    """Imports commands lazily, and exits quietly if a pipe is closed (`| head`)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _MOVED and not ctx.resilient_parsing:
            raise InputError(f"`minrisk {name}` is now `minrisk {_MOVED[name]}`")
        if name not in _COMMANDS:
            if ctx.resilient_parsing:
                return None
            raise unknown("command", name, _COMMANDS)
        module, _, attribute = _COMMANDS[name].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

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
    """Minimum Bayes Risk decoding: choose the best of many samples.

    `minrisk COMMAND --help` explains a command.

    \b
    minrisk decode samples.jsonl -o best.jsonl
    minrisk demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors that users can fix show no traceback."""
    _prepare()
    try:
        given = None if args is None else list(args)
        with own_process():
            code = cli.main(given, prog_name="minrisk", standalone_mode=False) or 0
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (MinriskError, OSError) as error:
        code = _fail(_with_flags(error))
    except click.Abort as end:
        code = TERMINATED if isinstance(end.__context__, Terminated) else INTERRUPTED
    _discard_unflushed_output()
    return int(code)


def _prepare() -> None:
    """Replace a closed standard error, print each warning on one line, and handle signals."""
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - for the whole run
    warnings.showwarning = partial(_show_once, set())
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), _terminate)


def _terminate(*_: object) -> None:
    raise Terminated


def _show_once(shown: set[str], message: Warning | str, *_: object, **__: object) -> None:
    if str(message) not in shown:
        shown.add(str(message))
        click.echo(f"minrisk: warning: {_with_flags(message)}", err=True)


def _with_flags(text: object) -> str:
    from minrisk.cli.options import as_flags  # imported here because it loads NumPy

    return as_flags(text)


def _fail(message: str) -> int:
    click.echo(f"minrisk: error: {' '.join(message.split())}", err=True)
    return MISUSE


def _discard_unflushed_output() -> None:
    """Flush standard output; if that fails, redirect it, so that the flush at exit succeeds."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
