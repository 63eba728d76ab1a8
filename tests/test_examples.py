"""Every example runs offline and prints what it promises; that of Ray in run/test_ray.py."""

from __future__ import annotations

import json
import operator
import re
import sys

import pytest

import minrisk
from project import ROOT, load_module

EXAMPLES = ROOT / "examples"
MAX_LINES = 65


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines that an example prints."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def run(name: str) -> list[str]:
        load_module(EXAMPLES / f"{name}.py").main()
        found: list[str] = capsys.readouterr().out.splitlines()
        return found

    return run


def test_comet_chooses_a_translation_of_each_source(printed):
    for package in ("torch", "transformers", "safetensors"):
        pytest.importorskip(package, reason="needs the extra minrisk[comet]")
    lines = printed("translate_with_comet")
    assert [line.split(":")[0] for line in lines] == ["source", "exact", "aggregate-to-fine"] * 3
    pairs = [int(match[1]) for line in lines if (match := re.search(r"\((\d+) pairs\)$", line))]
    exact, fast = pairs[::2], pairs[1::2]
    assert len(exact) == len(fast) == 3
    assert all(map(operator.lt, fast, exact))


def test_an_example_without_its_packages_says_what_to_install(printed, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(minrisk.MissingExtra, match=r"minrisk\[comet\]"):
        printed("translate_with_comet")


def test_most_samples_of_a_language_model_agree_on_the_right_sum(printed, monkeypatch):
    pytest.importorskip("aiohttp", reason="needs the extra minrisk[openai]")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    lines = [line for line in printed("llm_consensus") if line.startswith("What")]
    assert [line.split("?")[1].split()[0] for line in lines] == ["42", "272", "1002"]
    assert all("votes" in line for line in lines)


def test_training_data_have_a_target_and_a_pair(printed):
    counts, *targets, pair = printed("distillation_data")
    assert "'samples': 256" in counts
    assert len(targets) == 4
    assert all(line.count("\t") == 1 for line in targets)
    assert json.loads(pair).keys() == {"prompt", "chosen", "rejected"}


def test_a_metric_of_ones_own_goes_with_any_strategy(printed):
    function, *strategies, signature = printed("your_own_metric")
    assert function.startswith("a function: the cat sat on")
    assert {line.split(": ")[1].split(" (")[0] for line in strategies} == {"the cat sat on the mat"}
    assert "metric:word-overlap|metric.min_length:3" in signature


def test_the_readme_names_every_example_and_they_are_short():
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"]({path.name})" in readme
        if path.name != "stand_ins.py":
            assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
