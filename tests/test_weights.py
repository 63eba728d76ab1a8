"""Weights from log-probabilities: plain, by length, at a temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from tolerance import assert_close

LOGPROBS = st.lists(st.floats(-50, 0), min_size=1, max_size=6)


@given(logprobs=LOGPROBS, temperature=st.floats(0.1, 10))
def test_a_temperature_divides_log_probabilities(logprobs, temperature):
    weights = minrisk.weights_from_logprobs(logprobs, temperature=temperature)
    scaled = minrisk.weights_from_logprobs(np.array(logprobs) / temperature)
    assert_close(weights, scaled)


@given(logprobs=LOGPROBS)
def test_temperatures_go_from_the_most_probable_to_uniform(logprobs):
    hot = minrisk.weights_from_logprobs(logprobs, temperature=1e9)
    np.testing.assert_allclose(hot, 1 / len(logprobs), rtol=1e-6)  # 50 / 1e9 off the limit
    cold = minrisk.weights_from_logprobs(logprobs, temperature=1e-12)
    assert cold[np.argmax(logprobs)] == cold.max()


def test_lengths_make_them_those_of_an_average_token():
    weights = minrisk.weights_from_logprobs([-2.0, -6.0], lengths=[2, 6])
    assert_close(weights, [0.5, 0.5])
    weights = minrisk.weights_from_logprobs([-2.0, -6.0], lengths=[1, 6])
    assert_close(weights[1] / weights[0], np.e)


@pytest.mark.parametrize(("options", "message"), [
    ({"lengths": [1, 0]}, "lengths must be positive; found 0.0 as number 2"),
    ({"lengths": [1]}, "lengths: 1 values for 2 references"),
    ({"temperature": 0}, "temperature of 0"),
    ({"temperature": float("nan")}, "temperature of nan"),
])
def test_what_cannot_be_a_weight_is_said(options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.weights_from_logprobs([-1.0, -2.0], **options)


def test_decode_weighs_by_length(tmp_path):
    record = {"samples": ["a b", "c d e f"], "logprobs": [-3.0, -4.0]}
    path = write(tmp_path / "in.jsonl", record, record | {"lengths": [6, 4]})
    plain = run("decode", path, "--weights", "logprobs").records
    assert [r["text"] for r in plain] == ["a b", "a b"]
    normalised = run("decode", path, "--weights", "length-normalised").records
    assert [r["text"] for r in normalised] == ["c d e f", "a b"]
    text = write_lines(tmp_path / "hyps.txt", record["samples"])
    logprobs = write_lines(tmp_path / "lprobs.txt", record["logprobs"])
    found = run("decode", text, "-n", 2, "--reference-lprobs", logprobs,
                "--weights", "length-normalised")
    assert found.records[0]["text"] == "c d e f"


def test_decode_takes_a_temperature(tmp_path):
    samples = ["the cat sat", "the cat sits", "a dog"]
    path = write(tmp_path / "in.jsonl", {"samples": samples, "logprobs": [-9.0, -9.0, -5.0]})
    sharp = run("decode", path, "--weights", "logprobs")
    even = run("decode", path, "--weights", "logprobs", "--weights-temperature", 100)
    assert sharp.records[0]["text"] == "a dog" != even.records[0]["text"]
    assert "weights:logprobs/100.0" in even.err
    assert "weights:logprobs|" in sharp.err
    useless = run("decode", path, "--weights-temperature", 2)
    assert useless.code == 2
    assert "does nothing with --weights auto" in useless.err


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
