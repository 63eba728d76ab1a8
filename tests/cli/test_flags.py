"""Messages of the library speak Python, those of the command line speak flags."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import minrisk
from commands import run, write
from minrisk._core.errors import Wording
from minrisk.cli.decode import decode, export
from minrisk.cli.options import as_flags
from minrisk.cli.sample import sample
from project import ROOT

LIBRARY = ("_core", "strategies", "evaluation", "io", "run", "openai", "samplers")
FOREIGN = {"--model", "--output_dir", "--copy_files", "--head",
           "--address"}  # flags of other programs


@pytest.fixture
def command():
    """The options of a command line with two metrics are known."""
    decode.make_context("decode", [
        "--strategy", "coarse-to-fine", "--coarse", "bleu", "--metric", "chrf"])


@pytest.mark.parametrize(("message", "shown"), [
    ("keep=9 of 3 hypotheses", "--keep 9 of 3 hypotheses"),
    ("beta=0.5, expected more", "--metric.beta 0.5, expected more"),
    ("smooth_value=-1", "--coarse.smooth-value -1"),
    ("resume=True goes on; max_errors= ends", "--resume goes on; --max-errors ends"),
    ("overwrite=False keeps it", "--no-overwrite keeps it"),
    ("order=3", "order=3"),  # of two metrics, and nobody knows which
    ("x.keep=9 and no_option=3 and --keep=9", "x.keep=9 and no_option=3 and --keep=9"),
])
def test_options_of_the_running_command_are_shown_as_flags(command, message, shown):
    assert as_flags(Wording(message)) == shown


@pytest.mark.parametrize(("message", "shown"), [
    (Wording("keep={keep} of {count}", keep=9, count=3), "--keep 9 of 3"),
    (Wording("weights={by!r}: {path}", by="uniform", path="seed=3"), "--weights uniform: seed=3"),
    (Wording("{path}: {error}", path="seed=3",
             error=minrisk.InputError(Wording("resume=True, {name!r}", name="keep=1"))),
     "seed=3: --resume, 'keep=1'"),
    ("seed=3", "seed=3"),
    (minrisk.InputError("found seed=3"), "found seed=3"),
])
def test_values_in_messages_are_shown_as_they_are(command, message, shown):
    assert as_flags(message) == shown
    assert as_flags(pickle.loads(pickle.dumps(message))) == shown


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
def test_data_that_look_like_options_are_not_changed(options, tmp_path):
    found = run("decode", f"{tmp_path}/seed=3/missing.jsonl")
    assert "seed=3/missing.jsonl" in found.err
    samples = write(tmp_path / "seed=3.jsonl", {"samples": ["weights=5"], "weights": "weights=5"},
                    {"samples": ["a"]})
    found = run("decode", samples, *options)
    assert found.records[0]["error"].startswith(f"{samples}:1: ")
    assert "weights=5" in found.records[0]["error"]
    assert f"{samples}:1: " in found.err


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
def test_the_output_names_flags(options, tmp_path):
    samples = write(tmp_path / "in.jsonl", "plain text", {"samples": ["a"]})
    assert "give --num-candidates" in run("decode", samples, *options).records[0]["error"]


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


ERRORS = {"InputError", "UnusableError", "MissingExtra", "MinriskError", "warn"}
NAMED = re.compile(r"(?<![\w.-])[a-z]\w*=(?!=)|\w\}=")


def arguments(path: Path) -> Iterator[ast.expr]:
    """The texts of errors and warnings; a `Wording` apart."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and (
                getattr(node.func, "id", getattr(node.func, "attr", None)) in ERRORS):
            yield node.args[0]


def test_messages_that_name_options_are_templates():
    """Elsewhere, names of options would reach the user of a command as Python has them."""
    found = [f"{path}:{text.lineno}" for folder in (*LIBRARY, "metrics", "tasks")
             for path in (ROOT / "src" / "minrisk" / folder).rglob("*.py")
             for text in arguments(path) if isinstance(text, ast.Constant | ast.JoinedStr)
             and NAMED.search(ast.unparse(text))]
    assert not found


@pytest.mark.parametrize("folder", ["io", "run"])
def test_options_in_messages_of_a_run_are_known_to_the_command_line(folder):
    found = {name for text in texts(folder)
             for name in re.findall(r"\b([a-z_]+)=(?:True|'|\"| |$)", text)}
    own = {p.name for command in (decode, export, sample) for p in command.params}
    assert found <= own | {f.name for f in dataclasses.fields(minrisk.Endpoint)}


def test_all_unknown_options_are_told_at_once(tmp_path):
    """As those of a command of another tool."""
    path = write(tmp_path / "in.jsonl", {"samples": ["a"]})
    done = run("decode", path, "--no_such", "1", "--nothing=2", "--strategie", "x",
               "--metric", "chrf")
    assert done.code == 2
    for name in ("--no-such", "--nothing", "--strategie"):
        assert f"unknown option '{name}'" in done.err
    assert "did you mean '--strategy'" in done.err
    assert "'--metric'" not in done.err


@pytest.mark.parametrize(("command", "old", "new"), [
    (("sample", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"), "--drop-cut",
     "--drop-truncated"),
    (("serve", "--upstream", "http://127.0.0.1:9/v1"), "--allow-cut", "--allow-truncated")])
def test_the_old_name_of_an_option_is_answered_with_the_new_one(command, old, new):
    done = run(*command, old)
    assert done.code == 2
    assert f"unknown option '{old}'; here it is {new}" in done.err
