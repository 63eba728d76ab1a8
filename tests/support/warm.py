"""Commands and scripts in processes of their own, without the seconds that torch takes to import.

They are forks of one that did, and share nothing else. Triton runs in its interpreter there, which
must be on before it is imported. Files with such tests are in the group `warm` of conftest.py, to
share that one.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import warnings
from collections.abc import Callable
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import mock

from minrisk.cli import main

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([
    "minrisk.cli", "minrisk.samplers.hf", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto", "transformers.modeling_utils"])


def spawn_warm(folder: Path, *args: object, stdin: Path | None = None) -> BaseProcess:
    """`minrisk ARGS`, whose outputs go to the files `out` and `err` of a folder."""
    return _start(folder, stdin, _run_command, [str(arg) for arg in args])


def spawn_script_warm(folder: Path, script: Path, *args: str) -> BaseProcess:
    """`python -W error SCRIPT ARGS`, likewise."""
    return _start(folder, None, _run_script, [str(script), *args])


def run_script_warm(folder: Path, script: Path, *args: str) -> int | None:
    """The same to its end."""
    process = spawn_script_warm(folder, script, *args)
    process.join()
    return process.exitcode


def _start(folder: Path, stdin: Path | None, target: Callable[[list[str]], None],
           args: list[str]) -> BaseProcess:
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        ensure_running()
    process = _context.Process(target=_redirected, args=(folder, stdin, target, args))
    process.start()
    return process


def _redirected(folder: Path, stdin: Path | None, target: Callable[[list[str]], None],
                args: list[str]) -> None:
    os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), stream)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing gives it none
    target(args)


def _run_command(args: list[str]) -> None:
    sys.exit(main(args))


def _run_script(args: list[str]) -> None:
    sys.argv = args
    warnings.simplefilter("error")
    runpy.run_path(args[0], run_name="__main__")
