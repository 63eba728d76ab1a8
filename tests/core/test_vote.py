"""A vote that is stopped when it is decided: how often it is wrong, and how much it saves."""

from __future__ import annotations

from copy import deepcopy
from math import exp

import numpy as np
import pytest

from minrisk._core.errors import InputError
from minrisk._core.vote import Vote, answer_of, answer_pattern, find_answer, log_evidence
from minrisk.metrics.ngram.chrf import ChrF
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.metrics.votes.symbolic import Symbolic
from minrisk.samplers.openai import Endpoint

TRIALS = 200
DRAWS = 200  # of a trial at most; a rule that is often wrong is so early


def integral(ours, theirs, steps=20_000):
    p = 0.5 + (np.arange(steps) + 0.5) / (2 * steps)
    return float(np.mean(2.0 ** (ours + theirs) * p**ours * (1 - p) ** theirs))


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (8, 0), (3, 2), (20, 5), (0, 4), (40, 39)])
def test_the_evidence_is_the_integral_that_it_should_be(ours, theirs):
    assert exp(log_evidence(ours, theirs)) == pytest.approx(integral(ours, theirs), rel=1e-4)


def test_the_evidence_is_a_martingale_between_equally_frequent_answers():
    """One draw more changes it by nothing in the mean, so that looking often does no harm."""
    for ours, theirs in ((0, 0), (5, 2), (3, 9)):
        now, up, down = (exp(log_evidence(*pair)) for pair in (
            (ours, theirs), (ours + 1, theirs), (ours, theirs + 1)))
        assert (up + down) / 2 == pytest.approx(now)


def stopped(probabilities, error, rng):
    """The answer that a vote stops with, looking after every draw, and after how many."""
    vote, counts = Vote(error), np.zeros(len(probabilities), int)
    for number, answer in enumerate(rng.choice(len(probabilities), DRAWS, p=probabilities), 1):
        vote.add(int(answer))
        counts[answer] += 1
        if vote.leads():
            return int(counts.argmax()), number
    return None, DRAWS


@pytest.mark.parametrize("probabilities", [
    [0.34, 0.33, 0.33], [0.51, 0.49], [0.2, *[0.1] * 8], [0.06, *[0.94 / 20] * 20],
    [0.4, 0.35, 0.25]], ids=["three", "two", "one of nine", "many", "close"])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_a_vote_stops_with_another_answer_than_the_mode_at_most_as_often_as_it_says(probabilities,
                                                                                   error):
    rng = np.random.default_rng(0)
    found = [stopped(probabilities, error, rng)[0] for _ in range(TRIALS)]
    wrong = sum(answer not in (0, None) for answer in found)
    # three standard deviations of such a count above what is allowed
    assert wrong <= TRIALS * error + 3 * np.sqrt(TRIALS * error * (1 - error))


def test_a_clear_vote_is_stopped_early():
    rng = np.random.default_rng(0)
    found = [stopped([0.9, 0.1], 0.05, rng) for _ in range(TRIALS)]
    assert np.mean([number for _, number in found]) < 20
    assert np.mean([answer == 0 for answer, _ in found]) > 0.95


def test_a_vote_ends_when_nobody_can_catch_up():
    vote = Vote(1e-9)
    for answer in ("a", "a", "a", "b"):
        vote.add(answer)
    assert not vote.is_decided(remaining=2)
    assert vote.is_decided(remaining=1)


@pytest.mark.parametrize("error", [0.05, 1e-9])
def test_a_wave_is_long_enough_to_decide_the_vote_if_all_agree_and_waves_grow(error):
    rng = np.random.default_rng(0)
    for n in (5, 16, 64, 1000):
        vote, drawn = Vote(error), 0
        while drawn < n and not vote.is_decided(n - drawn):
            size = vote.wave(drawn, n - drawn)
            assert min(4, n - drawn) <= size <= n - drawn
            assert size >= min(drawn // 4, n - drawn)
            best = deepcopy(vote)
            for count in range(1, size):
                best.add("a")
                assert not best.is_decided(n - drawn - count) or size == max(4, drawn // 4)
            for answer in rng.choice(["a", "b"], size, p=[0.6, 0.4]):
                vote.add(answer)
            drawn += size


def test_texts_without_an_answer_vote_for_none():
    vote = Vote(0.05)
    for _ in range(50):
        vote.add(None)
    assert not vote.is_decided(remaining=3)
    assert not vote.leads()


class SameLength:
    """Texts are answers, and equal if they are as long; what is empty is none."""

    def __init__(self):
        self.pairs = 0

    def answer(self, text):
        return text or None

    def equal_answers(self, answer, others):
        self.pairs += len(others)
        return [len(answer) == len(other) for other in others]


def test_answers_that_can_only_be_compared_are_named_by_the_first():
    metric = SameLength()
    find = answer_of(metric)
    assert [find(text) for text in ("ab", "x", "cd", "", "y", "ab")] == [
        "ab", "x", "ab", None, "x", "ab"]
    assert metric.pairs == 1 + 2 + 2  # an answer is compared once, with one of each class
    assert answer_of(metric)("cd") == "cd"  # another vote has its own


@pytest.mark.parametrize(("pattern", "text", "answer"), [
    (r"\d+", "3 or 4", "4"), (r"is (\d+)( apples)?", "is 3 apples", "3"),
    (r"is (\d+)|#### (\d+)", "is 3, #### 4", "4"), (r"(?:-)?\d+", "x -5", "-5"),
    (r"((?:-)?(\d+))", "x -5", "-5"), (r"(?:is )?(?=(\d+))\d", "5", "5"),
    (r"\d+", "none", None)])
def test_an_answer_is_the_first_group_that_matched_or_the_whole_match(pattern, text, answer):
    assert find_answer(answer_pattern(pattern, "pattern"), text) == answer


@pytest.mark.parametrize("pattern", [
    r"(-)?(\d+)", r"(?:(\$)|x)(\d+)", r"(a)*?(?>(b))", r"is (?:(the) )?(?i:(\w+))",
    r"x|(?:(-)|)(\d)", r"(x)?(?(1)(a)|b)"])
def test_a_pattern_whose_first_group_may_be_missing_is_refused(pattern):
    """Texts with the group would have it as their answer, whatever comes after it."""
    with pytest.raises(InputError, match=r"\(\?:\.\.\.\)"):
        ExactMatch(pattern)
    with pytest.raises(InputError, match="vote"):
        Endpoint("m", "http://127.0.0.1:1/v1", vote=pattern)


def test_only_metrics_of_equal_answers_can_be_stopped():
    assert answer_of(ChrF()) is None
    assert answer_of(JsonMatch(by="field")) is None
    assert answer_of(Symbolic()) is not None
    assert answer_of(JsonMatch())('{"b": 1, "a": 2.0}') == '{"a":2,"b":1}'
    assert answer_of(ExactMatch(pattern=r"\d+"))("it is 42.") == "42"
