"""Matrices, functions and classes of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.plugins import Sample

TEXTS = ["a cat", "the cat", "a cat", "dogs"]


@pytest.mark.parametrize("strategy", ["standard", "prune", "low-rank", "adaptive"])
@pytest.mark.parametrize("references", [None, ["cats", "the cat", "cats"]])
def test_a_matrix_takes_the_place_of_its_metric(strategy, references):
    expected = minrisk.decode(TEXTS, references, metric="chrf", strategy=strategy)
    metric = minrisk.ChrF()
    refs = references or TEXTS
    matrix = metric.scores(metric.features(TEXTS), metric.features(refs))
    rows, columns = (sorted({side.index(text) for text in side}) for side in (TEXTS, refs))
    for scores in (matrix, matrix[np.ix_(rows, columns)]):
        found = minrisk.decode(TEXTS, references, matrix=scores, strategy=strategy)
        np.testing.assert_allclose(found.utility, expected.utility)
        assert found.order.tolist() == expected.order.tolist()
    assert "metric:matrix" in found.signature


@pytest.mark.parametrize("counts", [None, [2, 1, 3]])
def test_a_matrix_of_a_run_is_read_again(counts, tmp_path):
    record = {"samples": TEXTS[1:], **({"counts": counts} if counts else {})}
    samples = write(tmp_path / "in.jsonl", record)
    run("decode", samples, "-o", tmp_path / "out.jsonl", "--matrix", tmp_path / "scores.npz")
    scores = np.load(tmp_path / "scores.npz")["0"]
    found = minrisk.decode(TEXTS[1:], counts=counts, matrix=scores)
    np.testing.assert_allclose(found.utility, minrisk.decode(TEXTS[1:], counts=counts).utility)


@pytest.mark.parametrize("options", [{"matrix": np.eye(2)}, {"matrix": [1.0]}, {"matrix": "x"},
                                     {"matrix": np.eye(4), "metric": "chrf"}])
def test_a_matrix_that_does_not_fit_is_refused(options):
    with pytest.raises(minrisk.InputError, match="matrix"):
        minrisk.decode(TEXTS, **options)


def test_scores_that_a_strategy_lacks_are_named():
    with pytest.raises(minrisk.InputError, match="scores"):
        minrisk.decode(["a", "b"], ["c"], matrix=[[1], [2]], strategy="diverse")


CLASSES = """
from dataclasses import dataclass
import numpy as np
from minrisk.plugins import Metric, option

@dataclass(frozen=True)
class Length(Metric):
    name = "length"
    scale: float = option(1.0, help="factor of the difference")
    def features(self, texts):
        return np.array([len(text) for text in texts], float)
    def scores(self, hyps, refs, source=None):
        return -self.scale * np.abs(hyps[:, None] - refs)

@dataclass(frozen=True)
class Plain:
    features = Length.features
    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs) * 1.0

class Callable:
    def __call__(self, hyp, ref):
        return -abs(len(hyp) - len(ref))

class Empty: ...

class Undeclared:
    def features(self, texts): ...
    def scores(self, hyps, refs, source=None): ...
"""


@pytest.fixture
def own_classes(tmp_path, monkeypatch):
    (tmp_path / "own_classes.py").write_text(CLASSES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield "python:own_classes"
    sys.modules.pop("own_classes", None)


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_a_class_is_a_metric_with_its_options(own_classes, workers):
    samples = write(Path("in.jsonl"), {"samples": ["a", "bbb", "cccccc"]})
    args = ("decode", samples, *workers, "--metric", f"{own_classes}:Length")
    found = run(*args, "--metric.scale", "2")
    assert found.code == 0, found.err
    assert found.records[0]["text"] == "bbb"
    assert found.records[0]["utility"] == pytest.approx(-10 / 3)
    assert "metric.scale:2.0" in found.err
    assert run(*args, "--metric.scale", "x").code == 2


def test_a_class_is_named_in_python_and_inside_others(own_classes):
    assert minrisk.make_metric(f"{own_classes}:Length", scale=3).scale == 3
    assert minrisk.decode(["a", "bbb"], metric=f"symmetric:{own_classes}:Plain").best == 0
    with pytest.raises(minrisk.InputError, match="dataclass"):
        minrisk.make_metric(f"{own_classes}:Undeclared")


def test_a_class_of_functions_is_a_function(own_classes):
    metric = minrisk.make_metric(f"{own_classes}:Callable")
    expected = minrisk.decode(["a", "bbb", "bbbbb"], metric=f"{own_classes}:Length").utility
    for given in (metric, sys.modules["own_classes"].Callable):
        np.testing.assert_array_equal(
            minrisk.decode(["a", "bbb", "bbbbb"], metric=given).utility, expected)
    with pytest.raises(minrisk.InputError, match="__call__"):
        minrisk.decode(["a", "bbb"], metric=f"{own_classes}:Empty")


def echo(prompt, n):
    return [f"{prompt}!"] * (n - 1) + [Sample("?")]


def test_a_function_of_a_prompt_and_a_number_is_a_sampler():
    assert [one.texts for one in minrisk.sample(["a", "b"], 3, sampler=echo)] == [
        ["a!", "a!", "?"], ["b!", "b!", "?"]]
    assert [one.text for one in minrisk.answer(["a"], 3, sampler=echo)] == ["a!"]


@pytest.mark.parametrize(("function", "message"), [
    (lambda prompt, n: "text", "3 texts"), (lambda prompt, n: [1], "3 texts"),
    (lambda prompt, n: prompt.nothing, "AttributeError")])
def test_a_function_that_is_no_sampler_is_told(function, message):
    with pytest.raises(minrisk.InputError, match=message):
        list(minrisk.sample(["a"], 3, sampler=function))
