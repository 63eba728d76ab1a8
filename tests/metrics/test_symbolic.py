"""Votes among mathematical answers."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import minrisk
from minrisk.metrics.votes.math_answers import find_answer
from minrisk.metrics.votes.symbolic import Symbolic

pytestmark = pytest.mark.skipif(not find_spec("math_verify"), reason="needs math_verify")
LONG = "She adds the apples of every day to those of the day before, and counts. " * 5


def scores(hyps, refs):
    metric = Symbolic()
    return metric.scores(metric.features(hyps), metric.features(refs))


@pytest.mark.parametrize(("one", "other"), [
    ("1/2", "0.5"), (r"The answer is \boxed{\frac{2}{4}}.", "0.5"), ("so it is 1,000", "1000"),
    (r"\boxed{(x+1)^2}", "$x^2+2x+1$"), (r"$\sqrt{8}$", r"$2\sqrt{2}$"), ("50%", "0.5"),
    ("x^2+2x+1", "(x+1)^2"), (r"\sqrt{2}", "2^{1/2}"), ("3 + 4 = 7", "7"), ("x = 7", "7"),
    (r"\boxed{10\,000}", "10000"), (r"\boxed{\text{Evelyn}}", "Evelyn"), ("sin(x)", r"\sin x"),
    ("1e3", "1000"), ("it is -1.5e-3.", "-0.0015"), ("2.5E6", "2,500,000"), ("3e2 + x", "x + 300"),
    ("#### 18", r"Therefore, it is \boxed{18\text{ dollars}}.")])
def test_equal_values_are_equal_however_they_are_written(one, other):
    assert scores([one], [other]) == scores([other], [one]) == 1
    assert scores([one, other], [one, other]).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(("one", "other"), [
    ("2x", "2y"), ("2x", "2"), ("2xy", "2"), ("3.5x", "3"), ("x", "X"), ("x^2+y^2=1", "1"),
    ("50%", "50"), ("12:30", "0.4"), ("5!", "5"), (r"\boxed{Paris}", r"\boxed{pairs}"),
    ("1e3", "3e"), ("1e3", "103"), ("2e", "2"),
    ("costs $5 and $6", "5"), ("no idea", "on idea"), ("1/2", "1/3")])
def test_an_answer_is_equal_to_another_only_if_it_is_equal_in_value(one, other):
    assert scores([one], [other]) == scores([other], [one]) == 0
    assert scores([one, other], [one, other]).tolist() == [[1, 0], [0, 1]]


def test_texts_without_an_answer_agree_with_none():
    assert not scores(["", " ", LONG], ["", " ", LONG, "1"]).any()


@pytest.mark.parametrize(("text", "answer"), [
    (r"2 and \boxed{3}, no: \boxed{\frac{1}{2}} and \boxed{", r"\frac{1}{2}"),
    ("The answer is **12** apples, because 3 * 4 = 12.", "12"),
    ("Now 3 * 4 = 12.\n\nSo she has **12** apples.", "12"),
    ("The total is:\n\n\\[\n 3 \\times 4 = 12 \n\\]", "12"),
    ("It is $168 for 2 weeks.", "It is $168 for 2 weeks."),
    (f"{LONG}There are 4 and 5 of them, so 9 in", None)], ids=[
        "last box", "announced", "last sentence", "display", "two numbers", "cut off"])
def test_the_answer_stands_where_it_is_marked_or_at_the_end(text, answer):
    assert find_answer(text) == answer


def test_equal_answers_are_named_by_the_first_of_them():
    metric = Symbolic()
    features = metric.features(["0.5", "it is 2x", r"\boxed{\frac{1}{2}}", "x + x", "", "1/2"])
    assert metric.answers(features) == ["0.5", "it is 2x", "0.5", "x + x", None, "0.5"]


def test_a_vote_goes_to_the_value_that_most_give():
    samples = ["it is 4", r"\boxed{\frac{1}{2}}", "so 0.5", "1/2", "4.1"]
    assert minrisk.decode(samples, metric="symbolic").text == samples[1]


def test_hostile_answers_are_no_answers():
    tower = r"\boxed{" + "9^{" * 8 + "9" + "}" * 8 + "}"
    found = scores([tower, "1" * 5000, r"\boxed{" + "(" * 500, "2"], ["2"])
    assert found.ravel().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("text", [r"\boxed{" * 20_000, "{" * 50_000, "\n" * 50_000 + "x",
                                  "answer: " * 20_000, "$" * 300, "1 " * 149, r"\[" * 149, "--1e3"])
def test_hostile_texts_are_read_in_linear_time(text):
    find_answer(text)  # quadratic time would exceed any patience


def test_the_answer_and_the_votes_are_reported():
    samples = ["1/2", "it is 0.5", LONG, "2x"]
    [found] = minrisk.decode_corpus([{"samples": samples}], metric="symbolic")
    assert found.details == {"answer": "1/2", "votes": {"1/2": 0.5, "2x": 0.25}}
