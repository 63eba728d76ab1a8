"""Messages of the library speak Python, those of the command line speak flags."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

import pytest

import minrisk
from commands import run
from minrisk.cli.decode import decode
from minrisk.cli.export import export
from minrisk.cli.flags import as_flags
from minrisk.cli.sample import sample
from project import ROOT

LIBRARY = ("_core", "strategies", "evaluation", "io", "pipeline", "openai", "samplers")
FOREIGN = {"--model", "--output_dir", "--copy_files", "--head"}  # flags of other programs


@pytest.fixture
def command():
    """The options of a command line with two metrics are known."""
    decode.make_context("decode", [
        "--strategy", "coarse-to-fine", "--coarse", "bleu", "--metric", "chrf"])


@pytest.mark.parametrize(("message", "shown"), [
    ("keep=9 of 3 hypotheses", "--keep 9 of 3 hypotheses"),
    ("beta=0.5, wanted more", "--metric.beta 0.5, wanted more"),
    ("smooth_value=-1", "--coarse.smooth-value -1"),
    ("resume=True goes on; max_errors= ends", "--resume goes on; --max-errors ends"),
    ("overwrite=False keeps it", "--no-overwrite keeps it"),
    ("order=3", "order=3"),  # of two metrics, and nobody knows which
    ("x.keep=9 and no_option=3 and --keep=9", "x.keep=9 and no_option=3 and --keep=9"),
])
def test_options_of_the_running_command_are_shown_as_flags(command, message, shown):
    assert as_flags(message) == shown


def texts(folder: str) -> Iterator[str]:
    """The strings of a part of the library that are no docstrings."""
    for path in (ROOT / "src" / "minrisk" / folder).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {node.body[0].value for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                and node.body and isinstance(node.body[0], ast.Expr)}
        yield from (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
                    and isinstance(node.value, str) and node not in docs)


@pytest.mark.parametrize("folder", LIBRARY)
def test_the_library_knows_no_flags(folder):
    found = {flag for text in texts(folder)
             for flag in re.findall(r"(?<![\w-])--[a-z][a-z_-]*", text)}
    assert found <= FOREIGN


@pytest.mark.parametrize("folder", ["io", "pipeline"])
def test_options_in_messages_of_a_run_are_known_to_the_command_line(folder):
    found = {name for text in texts(folder)
             for name in re.findall(r"\b([a-z_]+)=(?:True|'|\"| |$)", text)}
    own = {p.name for command in (decode, export, sample) for p in command.params}
    assert found <= own | {f.name for f in dataclasses.fields(minrisk.Endpoint)}


@pytest.mark.parametrize(("command", "old", "new"), [
    (("sample", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"), "--drop-cut",
     "--drop-truncated"),
    (("serve", "--upstream", "http://127.0.0.1:9/v1"), "--allow-cut", "--allow-truncated")])
def test_the_old_name_of_an_option_is_answered_with_the_new_one(command, old, new):
    done = run(*command, old)
    assert done.code == 2
    assert f"unknown option '{old}'; here it is {new}" in done.err
