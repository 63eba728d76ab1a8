"""What the commands that read, work and write segment by segment have in common."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from minrisk.cli.method import Grouped
from minrisk.cli.progress import Progress
from minrisk.errors import InputError, MinriskError
from minrisk.io.files import same_file
from minrisk.io.remote import shown
from minrisk.progress import listening
from minrisk.registry import Registry

SOME_FAILED = 3  # the exit code of a run that went to its end without some segments
SETTINGS = {"token_normalize_func": lambda name: name.replace("_", "-"), "max_content_width": 100}


class FiniteRange(click.FloatRange):
    """A range of numbers; click takes `nan` and `inf` for some."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


def option(section: str, *names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=Grouped, section=section, **settings)


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options of a command as one decorator."""
    def decorate(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


def names_of(registry: Registry) -> Callable[..., list[str]]:
    return lambda ctx, param, start: [n for n in registry.names() if n.startswith(start)]


def check_files(read: Iterable[str | None], written: Iterable[str | None]) -> None:
    """Nothing is read twice, or destroyed before it is read."""
    paths = [path for path in read if path]
    if paths.count("-") > 1:
        raise InputError("standard input was given more than once; it can be read only once")
    for output in filter(None, written):
        for path in paths:
            if same_file(output, path):
                raise InputError(f"the output is the input {shown(path)}; write to another file")


def names_folder(output: str) -> bool:
    """Nobody asks a URL, which may have no folders at all: it says so by its slash."""
    return output.endswith("/") or os.path.isdir(output)


@contextmanager
def summing_up(ctx: click.Context, progress: Progress, output: str) -> Iterator[None]:
    """Show how far the work is, and say how much was done, however it ends."""
    try:
        with listening(progress.stage):
            yield
    except KeyboardInterrupt as stop:
        where = "standard output" if output == "-" else shown(output)
        hint = "; --resume goes on" if names_folder(output) else ""
        click.echo(f"\nminrisk: interrupted; segments in {where}: {progress.done}{hint}", err=True)
        if type(stop) is not KeyboardInterrupt:  # SIGTERM
            raise
        ctx.exit(130)
    except MinriskError:
        progress.finish()
        raise
    progress.finish()


def code_for(failed: int) -> int:
    return SOME_FAILED if failed else 0


def bar_fits(output: str) -> bool:
    """A live bar would run into results that go to the same terminal."""
    return not (output == "-" and sys.stdout is not None and sys.stdout.isatty())
