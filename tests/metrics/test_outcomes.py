"""Votes by outcomes are votes of exact-match on outcomes in the place of texts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import FEW
from minrisk.metrics.votes.exact_match import Outcomes

PROGRAMS = ["print(2 + 2)", "print(1 / 0)", "print(4)", "print(5)", "print(5) "]
PRINTED = ["4\n", None, "4", "5", "5"]


@FEW
@given(outcomes=st.lists(st.sampled_from(["4", "5", "x y", "4.0"]), min_size=1, max_size=9),
       numbers=st.booleans())
def test_a_vote_by_outcomes_is_a_vote_on_them(outcomes, numbers):
    samples = [f"program {i}" for i in range(len(outcomes))]
    found = minrisk.decode(samples, outcomes=outcomes, metric=Outcomes(numbers=numbers))
    expected = minrisk.decode(outcomes, metric=minrisk.ExactMatch(numbers=numbers))
    np.testing.assert_array_equal(found.utility, expected.utility)
    np.testing.assert_array_equal(found.order, expected.order)
    assert found.text == samples[expected.best]


def test_samples_without_an_outcome_agree_with_none():
    found = minrisk.decode(PROGRAMS, outcomes=[None, " ", "", "4", None], metric="outcomes")
    np.testing.assert_array_equal(found.utility, [0, 0, 0, 0.2, 0])


@pytest.mark.parametrize("strategy", ["aggregate", "n-by-s", "adaptive", "prune", "medoids"])
def test_every_strategy_votes(strategy):
    further = {"n-by-s": {"subset": 14}, "adaptive": {"budget": 1.0}, "prune": {"alpha": 1.0}}
    options = further.get(strategy, {})
    found = minrisk.decode(PROGRAMS, outcomes=PRINTED, counts=[1, 9, 1, 1, 2], metric="outcomes",
                           strategy=strategy, **options)
    assert found.text == "print(5)"


def test_a_later_stage_votes_with_the_outcomes_of_all_samples():
    found = minrisk.decode(PROGRAMS, outcomes=PRINTED, counts=[1, 1, 3, 1, 1],
                           strategy="coarse-to-fine", metric="outcomes", coarse="chrf", keep=2)
    kept = np.flatnonzero(~np.isnan(found.utility))
    shares = {0: 4 / 7, 1: 0.0, 2: 4 / 7, 3: 2 / 7, 4: 2 / 7}
    assert [shares[row] for row in kept] == pytest.approx(found.utility[kept].tolist())


def test_references_are_outcomes_too():
    found = minrisk.decode(PROGRAMS, ["5"], outcomes=PRINTED, metric="outcomes")
    np.testing.assert_array_equal(found.utility, [0, 0, 0, 1, 1])


def test_the_command_line_reads_outcomes(tmp_path):
    samples = write(tmp_path / "programs.jsonl",
                    {"samples": PROGRAMS, "outcomes": PRINTED, "counts": [1, 1, 1, 1, 1]},
                    {"samples": ["a", "b", "c"], "outcomes": [[1, 2], {"x": 1}, [1, 2]]},
                    {"samples": ["a", "b"]},
                    {"samples": ["a", "b"], "outcomes": ["x"]},
                    {"samples": ["a"], "outcomes": "x"})
    result = run("decode", samples, "--metric", "outcomes", "--on-error", "skip")
    first, second, *failed = map(json.loads, result.out.splitlines())
    assert first | {"id": 0} == {"id": 0, "text": "print(2 + 2)", "index": 0, "utility": 0.4,
                                 "answer": "4", "votes": {"4": 0.4, "5": 0.4}}
    assert (second["text"], second["answer"]) == ("a", "[1, 2]")
    assert "outcomes" in failed[0]["error"]
    assert "2 outcomes" in failed[1]["error"]
    assert 'outcomes "x"' in failed[2]["error"]


def test_a_human_reference_can_be_the_expected_outcome(tmp_path):
    samples = write(tmp_path / "programs.jsonl",
                    {"samples": PROGRAMS, "outcomes": PRINTED, "expected": "5"})
    result = run("decode", samples, "--metric", "outcomes", "--oracle", "expected")
    assert json.loads(result.out)["text"] == "print(5)"


@pytest.mark.parametrize("outcome", [{1}, {1: 2, "a": 3}, b"x"])
def test_outcomes_that_are_no_json_are_told(outcome):
    with pytest.raises(minrisk.InputError, match="outcomes"):
        list(minrisk.decode_corpus([{"samples": ["a"], "outcomes": [outcome]}]))


def test_strategies_are_validated_by_outcomes():
    corpus = [{"samples": PROGRAMS, "outcomes": PRINTED}] * 2
    found = minrisk.validate(corpus, "outcomes", strategies=["aggregate"])
    assert found.rows[-1].trial.strategy == "aggregate"
    assert not found.skipped


def test_outcomes_change_the_checksum_of_a_segment():
    from minrisk.io.objects import _checksum

    one, other = (minrisk.Segment(["a"], outcomes=[printed]) for printed in ("x", "y"))
    assert _checksum(one) != _checksum(other)


def test_texts_and_outcomes_are_not_added():
    assert minrisk.make_metric("symmetric:outcomes").compares_outcomes
    assert minrisk.make_metric("outcomes*0.5+outcomes").compares_outcomes
    with pytest.raises(minrisk.InputError, match="added"):
        minrisk.make_metric("outcomes+chrf")


@pytest.mark.parametrize(("outcomes", "message"), [
    (["a", 1], "outcomes .* int"),
    ("ab", "outcomes .* one string"),
    (["a"], "2 outcomes .* 1")])
def test_outcomes_that_fit_no_samples_are_told(outcomes, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.Segment(["a", "b"], outcomes=outcomes)


def test_uncertainty_is_that_of_outcomes():
    strategy = minrisk.Uncertain(minrisk.Standard(Outcomes()))
    given = minrisk.Segment(PROGRAMS, ["5", "4"], outcomes=PRINTED)
    for segment in (given, minrisk.Segment(PROGRAMS, outcomes=PRINTED)):
        [ranking] = strategy.rank([segment])
        assert (ranking.uncertainty.clusters, ranking.uncertainty.unanswered) == (2, 0.2)
