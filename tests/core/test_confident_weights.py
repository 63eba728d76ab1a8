"""Weights by the confidence of a model in each sample, and by rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run
from generators import FEW, cases
from mbr_server import serving, settings
from minrisk._core.weights import weights_from_confidences
from minrisk.io.weighting import CONFIDENCE_COLUMNS, Weighting
from minrisk.plugins import Sample
from minrisk.tasks.decode import SampleWeightOptions
from small_metrics import Counting
from tolerance import assert_close
from upstream import mock_upstream

CONFIDENCES = st.lists(st.tuples(st.floats(-20, 0), st.integers(1, 4)), min_size=1, max_size=6)
VOTE = minrisk.ExactMatch(r"\d+")
# a majority for 8, of which the model is less sure
LINE = {"samples": ["8", "is 8", "7", "is 7", "so 8"], "counts": [1, 1, 1, 1, 1],
        "logprobs": [-8.0, -8.0, -0.1, -0.2, -8.0], "lengths": [1, 2, 1, 2, 2],
        "lowest_logprobs": [-8.0, -7.0, -0.1, -0.2, -9.0],
        "tail_logprobs": [-8.0, -6.0, -0.1, -0.3, -9.0], "certainties": [1.0, 2.0, 9.0, 9.0, 3.0]}


@given(CONFIDENCES, st.floats(0.05, 1), st.floats(0.1, 10))
def test_the_surest_share_weighs_by_its_confidence(rows, keep, temperature):
    values, counts = map(np.array, zip(*rows, strict=True))
    weights = weights_from_confidences(values, counts, temperature=temperature, keep=keep)
    assert_close(weights @ counts, 1.0)
    every = weights_from_confidences(values, counts, temperature=temperature)
    assert_close(every / every.max(), np.exp((values - values.max()) / temperature))
    kept = ceil(round(keep * counts.sum(), 9))
    surest = np.repeat(np.arange(values.size), counts)[
        np.argsort(-np.repeat(values, counts), kind="stable")[:kept]]
    assert {*np.flatnonzero(weights)} <= {*surest.tolist()}
    assert weights[np.argmax(values)] == weights.max() > 0


@pytest.mark.parametrize("by", CONFIDENCE_COLUMNS)
def test_a_vote_weighs_each_sample_by_what_its_tokens_say(by):
    [plain] = minrisk.decode_corpus([LINE], metric=VOTE)
    [found] = minrisk.decode_corpus([LINE], metric=VOTE, weights=by, weights_temperature=2.0,
                                    confidence=True)
    assert (plain.answer, found.answer) == ("8", "7")
    values = np.array(LINE[CONFIDENCE_COLUMNS[by]])
    if by == "mean-logprob":
        values = values / LINE["lengths"]
    expected = minrisk.decode(LINE["samples"], weights=np.exp(values / 2), metric=VOTE)
    assert_close(found.ranking.utility, expected.utility)
    assert_close(found.confidence.share, expected.utility.max())
    assert f"weights:{by}/2.0" in found.ranking.signature


def test_a_mean_log_probability_is_that_of_a_token_for_each_copy():
    texts, logprobs, lengths = ["a b", "a c", "d"], [-1.0, -3.0, -2.0], [2, 2, 1]
    once = Weighting("mean-logprob").of(logprobs, texts, lengths, [1, 1, 1])
    assert_close(once, Weighting("length-normalised").of(logprobs, texts, lengths, [1, 1, 1]))
    twice = Weighting("mean-logprob").of(logprobs, texts, lengths, [2, 1, 1])
    assert_close(twice[0] / twice[2], once[0] / once[2])


def test_only_the_surest_half_votes():
    [found] = minrisk.decode_corpus([LINE], metric=VOTE, weights="tail-logprob",
                                    weights_temperature=1e15, keep_confident=0.5)
    assert_close(found.ranking.utility, [1 / 3, 1 / 3, 2 / 3, 2 / 3, 1 / 3])


@pytest.mark.parametrize(("options", "token"), [
    ({"weights": "logprob"}, "logprobs"), ({"keep_confident": 0.5}, "keep_confident"),
    ({"weights": "logprobs", "keep_confident": 0.5}, "keep_confident"),
    ({"weights": "uniform", "weights_temperature": 2.0}, "weights_temperature"),
    ({"weights": "reward:chrf"}, "chrf")])
def test_options_that_weigh_nothing_are_refused(options, token):
    with pytest.raises(minrisk.InputError, match=token):
        [*minrisk.decode_corpus([LINE], metric=VOTE, **options)]


def test_samples_without_the_numbers_fail_by_name():
    without, weighted = minrisk.decode_corpus([{"samples": ["7", "8"]}, LINE], metric=VOTE,
                                              weights="certainty", on_error="skip")
    assert "certainties" in without.error
    assert weighted.answer == "7"


def drawn(prompt, n):
    return [Sample(text, tail_logprob=value) for text, value in zip(
        LINE["samples"], LINE["tail_logprobs"], strict=True)]


def test_answers_are_weighted_while_they_are_drawn():
    found = minrisk.answer("?", 5, sampler=drawn, metric=VOTE, weights="tail-logprob")
    assert found.answer == "7"
    weighted = minrisk.decode_corpus([LINE], metric=VOTE, weights="tail-logprob")
    assert_close(found.utility, next(weighted).utility)


def test_a_vote_that_ends_early_is_not_weighted():
    with pytest.raises(minrisk.InputError, match="vote"):
        minrisk.answer("?", model="m", endpoint="http://127.0.0.1:9/v1", vote=r"\d+",
                       weights="mean-logprob")


# rewards


@FEW
@given(cases())
def test_rewards_weigh_references_as_their_exponentials_do(case):
    metric = Counting()
    rewards = metric.quality(metric.features(case.refs), metric.features(["aa"]))
    weights = case.weights * np.exp((rewards - rewards.max()) / 20)
    weighted = minrisk.RewardWeighted(minrisk.Standard("chrf"), Counting(), beta=20.0)
    found, flat = (minrisk.decode(case.hyps, case.refs, "aa", case.weights,
                                  strategy=replace(weighted, beta=beta)) for beta in (20.0, 1e15))
    expected = (minrisk.decode(case.hyps, case.refs, weights=own, metric="chrf")
                for own in (weights, case.weights))
    for one, other in zip((found, flat), expected, strict=True):
        assert_close(one.utility, other.utility, scale=100)


def test_confidence_is_that_of_the_weighted_vote():
    line = {"samples": ["8", "is 8", "7"], "counts": [1, 1, 1], "logprobs": [-9.0, -9.0, -0.1]}
    [found] = minrisk.decode_corpus([line], metric=VOTE, weights="reward:logprob", confidence=True,
                                    uncertainty=True)
    assert found.answer == "7"
    assert found.confidence.share == found.utility > 0.9
    assert found.uncertainty.largest > 0.9
    assert "quality:logprob" in found.ranking.signature


def test_only_commands_that_choose_take_rewards(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(LINE) + "\n")
    done = run("decode", path, "--metric", "exact-match", "--weights", "reward:logprob",
               "--weights-temperature", 10)
    assert json.loads(done.out)["text"]
    assert "reward" in run("validate", path, "--weights", "reward:logprob").err


@pytest.mark.parametrize(("by", "asked"), [
    ("tail-logprob", {"logprobs": True}), ("certainty", {"logprobs": True, "top_logprobs": 5}),
    ("reward:logprob", {"logprobs": True})])
def test_a_server_asks_for_what_weights_need_and_does_not_stop_a_weighted_vote(by, asked):
    weights = SampleWeightOptions(weights=by)
    chosen = replace(settings(VOTE, samples=16), weighting=weights.sample_weighting,
                     reweighted=weights.reweighted)
    with mock_upstream("7") as upstream, serving(upstream.url, chosen) as server:
        found = server.chat().body["minrisk"]
    fields = {name: value for name, value in upstream.bodies[0].items() if "logprobs" in name}
    assert fields == asked
    assert found["samples"] == 16


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_confidence_that_is_no_number_is_shown_with_its_place(value):
    with pytest.raises(minrisk.InputError, match=f"{value} as number 2"):
        weights_from_confidences([-1.0, value, -2.0])
