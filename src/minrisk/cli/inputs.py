"""The files that a command reads segments from."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minrisk.errors import InputError
from minrisk.io.files import Input
from minrisk.io.inputs import open_input


def open_inputs(paths: Sequence[str]) -> list[Input]:
    if not paths and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("no INPUT was given, and standard input is a terminal; "
                         "name a file, or pipe JSON lines")
    return [open_input(path) for path in paths or ["-"]]


def fraction_read(inputs: Sequence[Input]) -> float | None:
    """How much of the input was read, in bytes, if that can be known."""
    sizes = [source.size for source in inputs]
    if None in sizes or not sum(filter(None, sizes)):
        return None
    return sum(source.consumed for source in inputs) / sum(filter(None, sizes))
