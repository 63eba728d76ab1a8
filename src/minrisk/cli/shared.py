"""What the commands have in common."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from minrisk._core.errors import InputError
from minrisk._core.registry import Registry
from minrisk.cli.method import Grouped
from minrisk.io.files import file_key
from minrisk.io.inputs import InputFile, expand
from minrisk.io.remote import shown

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


def input_files(paths: Iterable[str]) -> list[InputFile]:
    """The files that paths and patterns name; standard input where there are none."""
    found = expand(paths)
    if not found and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("no INPUT was given, and standard input is a terminal; "
                         "name a file, or pipe JSON lines")
    return [InputFile.at(path) for path in found or ["-"]]


def check_files(read: Iterable[str | None], written: Iterable[str | None]) -> None:
    """Nothing is read twice, or destroyed before it is read."""
    paths = [path for path in read if path]
    if paths.count("-") > 1:
        raise InputError("standard input was given more than once; it can be read only once")
    keys = {file_key(path, "stdin"): path for path in paths}
    for output in filter(None, written):
        key = file_key(output, "stdout")
        if key is not None and key in keys:
            raise InputError(f"the output is the input {shown(keys[key])}; write to another file")


def code_for(failed: int) -> int:
    return SOME_FAILED if failed else 0


def bar_fits(output: str) -> bool:
    """A live bar would run into results that go to the same terminal."""
    return not (output == "-" and sys.stdout is not None and sys.stdout.isatty())
