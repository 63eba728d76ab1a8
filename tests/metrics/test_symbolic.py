"""Votes among mathematical answers."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import minrisk
from minrisk.metrics.symbolic import Symbolic

pytestmark = pytest.mark.skipif(not find_spec("math_verify"), reason="needs math_verify")


def scores(hyps, refs):
    metric = Symbolic()
    return metric.scores(metric.features(hyps), metric.features(refs))


@pytest.mark.parametrize(("one", "other"), [
    ("1/2", "0.5"), (r"The answer is \boxed{\frac{2}{4}}.", "0.5"), ("so it is 1,000", "1000"),
    (r"\boxed{(x+1)^2}", "$x^2+2x+1$"), (r"$\sqrt{8}$", r"$2\sqrt{2}$")])
def test_equal_values_are_equal_however_they_are_written(one, other):
    assert scores([one], [other]) == scores([other], [one]) == 1


def test_other_values_and_texts_without_an_answer_are_not_equal():
    texts = ["1/2", "1/3", "no idea", "no idea at all"]
    assert scores(texts, texts).tolist() == np.diag([1, 1, 0, 0]).tolist()


def test_a_vote_goes_to_the_value_that_most_give():
    samples = ["it is 4", r"\boxed{\frac{1}{2}}", "so 0.5", "1/2", "4.1"]
    assert minrisk.decode(samples, metric="symbolic").text == samples[1]


def test_hostile_answers_are_no_answers():
    tower = r"\boxed{" + "9^{" * 8 + "9" + "}" * 8 + "}"
    found = scores([tower, "1" * 5000, r"\boxed{" + "(" * 500, "2"], ["2"])
    assert found.ravel().tolist() == [0, 0, 0, 1]


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("minrisk.metrics.symbolic.find_spec", lambda name: None)
    with pytest.raises(minrisk.MissingExtra, match=r"minrisk\[math\]"):
        scores(["1"], ["1"])
