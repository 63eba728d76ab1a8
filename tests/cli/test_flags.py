"""Messages of the library speak Python, those of the command line speak flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from minrisk.cli import cli
from minrisk.cli.flags import OPTIONS, as_flags
from project import ROOT

LIBRARY = ("_core", "strategies", "evaluation", "io", "pipeline", "openai", "samplers")
FOREIGN = {"--model", "--output_dir", "--copy_files", "--head"}  # flags of other programs


@pytest.mark.parametrize(("message", "shown"), [
    ("resume=True goes on", "--resume goes on"),
    ("more than max_errors=3;", "more than --max-errors 3;"),
    ("engine='ray' needs ray", "--engine ray needs ray"),
    ("leave address= out", "leave --address out"),
    ('give prompt="To French: {source}"', 'give --prompt "To French: {source}"'),
    ("max_tokens=512, key=True", "max_tokens=512, key=True"),
    ("metric 'python' needs the option function=",
     "metric 'python' needs the option --metric.function"),
    ("sampler 'openai' needs the option top_p=", "sampler 'openai' needs the option --top-p"),
    ("no option", "no option"),
])
def test_options_are_shown_as_flags(message, shown):
    assert as_flags(message) == shown


def test_every_option_is_one_of_a_command():
    assert {p.name for command in cli.commands.values() for p in command.params} >= OPTIONS


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
    assert found <= OPTIONS
