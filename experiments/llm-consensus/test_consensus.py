"""The whole experiment on a tiny scale, with a mock server instead of a language model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import openai_server
from commands import run
from openai_server import Handler, answer, likeness, scoring
from project import ROOT, load_module

EXPERIMENT = Path(__file__).parent
BOXES = [r"so \boxed{7}", r"hence \boxed{7.0}", r"or \boxed{8}", r"\boxed{\text{knight, knave}}"]


@pytest.fixture(scope="module")
def tasks():
    return load_module(EXPERIMENT / "tasks.py")


@pytest.fixture(scope="module")
def methods():
    return load_module(EXPERIMENT / "methods.py")


def test_the_gold_answers_of_our_own_tasks_are_right(tasks, methods):
    problems = list(tasks.own_problems(8, 0))
    assert problems == list(tasks.own_problems(8, 0))
    assert len({problem["prompt"] for problem in problems}) == len(problems)
    for problem in problems:
        kind = methods.kind_of(problem["task"])
        text = (problem["gold"] if kind == "json" else
                " ".join(spellings[0] for spellings in problem["gold"]))
        assert methods.qualities(kind, [text, "none"], problem["gold"]) == [1.0, 0.0]
        shown = json.loads(text) if kind == "json" else {}
        for name, value in shown.items():
            if isinstance(value, str) and name != "departure":  # which is computed
                assert value in problem["prompt"]


@pytest.mark.parametrize(("kind", "gold", "right"), [
    ("number", "7", [1, 1, 0, 0]), ("words", "Knight, knave", [0, 0, 0, 1])])
def test_answers_are_compared_by_value_or_by_words(methods, kind, gold, right):
    if kind == "number":
        pytest.importorskip("math_verify", reason="needs the extra minrisk[math]")
    assert methods.qualities(kind, BOXES, gold) == right


def test_a_run_has_all_methods_that_fit_a_task(tasks, tmp_path):
    pytest.importorskip("math_verify", reason="needs the extra minrisk[math]")
    problems = [
        *tasks.own_problems(2, 0),
        {"id": "sum-0", "task": "chain_sum", "prompt": "3 + 4?", "gold": "7"},
    ]
    given = tmp_path / "problems.jsonl"
    given.write_text("".join(json.dumps(problem) + "\n" for problem in problems))

    def reply(handler: Handler) -> None:
        (scoring(likeness) if "grammar" in handler.body else answer)(handler)

    with openai_server.serving() as server:
        server.always = reply
        run("sample", given, "--endpoint", server.endpoint, "--model", "m", "-n", 4, "--repeat",
            "--top-logprobs", 2, "-o", tmp_path / "tiny.jsonl")
        asking = ["--endpoint", server.endpoint, "--problems", 1, "--samples", 4]
        experiment(tmp_path, *asking)
        asked = len(server.bodies)
        experiment(tmp_path, *asking)
        assert len(server.bodies) == asked  # what is there is not asked again
    experiment(tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())["tasks"]
    rows = {task["task"]: {row["method"]: row for row in task["rows"] if row["n"] == 4}
            for task in found}
    assert rows.keys() == {"extraction", "summary", "chain_sum"}
    assert "majority" in rows["extraction"]
    assert "majority" not in rows["summary"]
    assert {"symbolic", "vote by self-certainty"} <= rows["chain_sum"].keys()
    for task in found:
        assert {row["method"] for row in task["served"]} >= {"MBR by judge",
                                                             "universal self-consistency"}
        for row in task["rows"]:
            assert 0 <= row["low"] <= row["mean"] <= row["high"] <= 1
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("before\n")
    assert "| MBR by chrF |" in page


def experiment(folder: Path, *options: object) -> None:
    (folder / "README.md").write_text("before\n<!-- table: results -->\nold\n<!-- end -->\nafter\n")
    command = [EXPERIMENT / "run.py", folder / "tiny.jsonl", "--sizes", 2, 4, "--served",
               folder / "choices.jsonl", "--output", folder, *options]
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
