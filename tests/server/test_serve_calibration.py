"""Answers with the probability of being right, and none where they would too often be wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import minrisk
from commands import run
from mbr_server import serving, settings
from minrisk.tasks.decode import MeasureOptions
from upstream import mock_upstream

METRIC = minrisk.ExactMatch(r"\d+")
MADE = minrisk.Calibration("confidence.share", tuple(k / 40 for k in range(40, 0, -1)),
                           (True,) * 24 + (False,) * 16, 2.0, 0.5,
                           signature=minrisk.signature(minrisk.Standard(METRIC)))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(MADE.as_json()))
    return path


def calibrated(path, metric=METRIC, max_error=0.2, **more):
    measures = MeasureOptions(calibration=str(path), max_error=max_error)
    return replace(settings(metric, **more), measures=measures, calibration=MADE)


@pytest.mark.parametrize(("texts", "share", "answers"), [
    (["it is 7", "7", "seven: 7", "8"], 0.75, True), (["6", "7", "8", "9"], 0.25, False)])
def test_an_answer_that_is_sure_enough_is_given(path, texts, share, answers):
    with mock_upstream(*texts) as upstream, serving(upstream.url, calibrated(path)) as server:
        reply = server.chat()
    found = reply.body["minrisk"]
    assert found["share"] == share
    assert abs(found["calibrated"] - MADE.probability(share)) < 1e-9
    assert float(reply.headers["x-minrisk-calibrated"]) == pytest.approx(found["calibrated"], 1e-5)
    assert ("abstained" not in found) == answers
    refusal = reply.body["choices"][0]["message"].get("refusal")
    assert (refusal is None) == answers
    if not answers:
        assert f"right with a probability of {found['calibrated']:.0%}" in refusal


def test_choices_by_another_metric_have_none(path):
    chosen = calibrated(path, allow=("chrf",))
    with mock_upstream("6", "7", "8", "9") as upstream, serving(upstream.url, chosen) as server:
        found = server.chat(minrisk={"metric": "chrf"}).body["minrisk"]
    assert "calibrated" not in found
    assert "abstained" not in found


def test_a_server_does_not_start_with_the_calibration_of_another_metric(path):
    done = run("serve", "--upstream", "http://127.0.0.1:9/v1", "--metric", "chrf", "--calibration",
               path)
    assert "strategy:standard|metric:exact-match" in done.err


@pytest.mark.parametrize(("signal", "asked"), [
    ("confidence.share", {}), ("confidence.lowest_logprob", {"logprobs": True}),
    ("confidence.certainty", {"logprobs": True, "top_logprobs": 5})])
def test_the_upstream_is_asked_for_what_the_signal_of_the_calibration_needs(signal, asked):
    chosen = replace(settings(METRIC), calibration=replace(MADE, signal=signal))
    with mock_upstream("7", "7", "8", "9") as upstream, serving(upstream.url, chosen) as server:
        found = server.chat().body["minrisk"]
    fields = {name: value for name, value in upstream.bodies[0].items() if "logprobs" in name}
    assert fields == asked
    assert "calibrated" in found
    assert ("lowest_logprob" in found) == bool(asked)


def test_the_other_signals_are_beside_the_probability():
    with mock_upstream("7", "7", "8", "9") as upstream, serving(
            upstream.url, settings(METRIC)) as server:
        plain, asked = (server.chat(**more).body["minrisk"] for more in ({}, {"logprobs": True}))
    assert plain["margin"] == 0.25
    assert "logprob" not in plain
    vote = minrisk.Confident(minrisk.Standard(METRIC))
    expected = minrisk.decode(["7", "8", "9"], counts=[2, 1, 1], strategy=vote).confidence
    assert plain["gain"] == pytest.approx(expected.gain)
    assert asked["logprob"] == asked["lowest_logprob"] == asked["tail_logprob"] == -1.0
