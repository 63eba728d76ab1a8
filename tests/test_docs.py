"""What the documents say is what happens."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import minrisk
from minrisk.testing import check_metric, check_strategy
from project import ROOT, SUPPORT, TESTS, blocks, write_example_files


def test_the_python_of_the_readme_prints_what_it_says():
    code, expected = blocks("README.md", "python")[0], blocks("README.md", "text")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == expected


@pytest.fixture
def files(tmp_path) -> Path:
    return write_example_files(tmp_path)


def test_the_corpus_calls_of_the_readme_run_as_written(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    _, code = blocks("README.md", "python")
    exec(code, {})
    *choices, texts, counts, label, pair = capsys.readouterr().out.splitlines()
    segments = map(json.loads, (files / "samples.jsonl").read_text(encoding="utf-8").splitlines())
    assert choices == [
        f"{s['id']} {minrisk.decode(s['samples'], strategy='aggregate-to-fine', keep=2).text}"
        for s in segments]
    assert (texts, counts) == ("['the cat', 'yes']", "3 0")
    assert label
    assert pair.startswith("{'prompt': 'Satz 0', 'chosen': ")


@pytest.mark.parametrize("command", "".join(blocks("README.md", "sh")).splitlines())
def test_the_commands_of_the_readme_run_as_written(command, files):
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, cwd=files, env=environment, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    names = ("best.jsonl", "best.txt", "out/1.jsonl")
    outputs = [files / name for name in names if (files / name).exists()]
    if (files / "report.html").exists():  # a page, and nothing on standard output
        return
    assert done.stdout or outputs[0].read_text(encoding="utf-8").count("\n") in (2, 3)


def test_the_readme_names_every_strategy_metric_and_sampler():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = minrisk._core.registry
    for registry in (names.STRATEGIES, names.METRICS, names.SAMPLERS):
        for name in registry.builtin:
            assert f"| `{name}`" in text


def test_the_glossary_has_words_that_the_code_uses():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("| word | meaning |\n|---|---|\n")[2].splitlines()
    words = [row.split("|")[1].strip() for row in rows]
    assert words == sorted(set(words), key=str.lower)
    code = "\n".join(path.read_text(encoding="utf-8").lower()
                     for path in (ROOT / "src" / "minrisk").rglob("*.py"))
    assert [word for word in words
            if not re.search(re.escape(word.lower()).replace(r"\ ", "[ _-]?"), code)] == []


def test_the_metric_and_the_strategy_of_the_manual_keep_the_contract(monkeypatch):
    example = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # where dataclasses look for it
    for code in blocks("docs/extend.md", "python"):
        if "@dataclass" in code:
            exec(code, vars(example))
    check_metric(example.Length())
    check_strategy(example.Newest(example.Length(), last=2))
    check_strategy(example.Newest(minrisk.ChrF()))


def test_the_contributing_guide_names_every_module_and_folder_of_the_tests():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in SUPPORT.glob("*.py"):
        assert f"`{path.stem}`" in text
        assert path.read_text(encoding="utf-8").startswith('"""'), f"{path} does not say what it is"
    for path in TESTS.glob("*/"):
        assert f"`{path.name}`" in text or path.name.startswith("_")
