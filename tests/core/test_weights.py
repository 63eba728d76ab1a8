"""Weights from log-probabilities: plain, by length, at a temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from minrisk.io.inputs import InputFile
from minrisk.io.records import Record
from minrisk.io.segments import SampleReader
from minrisk.io.weighting import Weighting
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


PROBABILITIES = (0.5, 0.3, 0.2)
COUNTS = (5, 3, 2)
TEXTS = ("the cat sat", "the cat sits", "a dog")


def reference_weights(segment):
    """What each distinct text weighs as a reference."""
    found = dict.fromkeys(TEXTS, 0.0)
    for text, weight in zip(segment.references, segment.weights, strict=True):
        found[text] += weight
    return list(found.values())


def records_of(*fields, by="logprobs"):
    reader = SampleReader((), Weighting(by))
    return [reader.parse_fields(record, Record(0, 0, "in", 1)) for record in fields]


def test_a_text_weighs_its_probability_however_often_it_was_sampled():
    logprobs = np.log(PROBABILITIES)
    weights = minrisk.weights_from_logprobs(logprobs, TEXTS, COUNTS)
    counted = minrisk.Segment(TEXTS, weights=weights, counts=COUNTS)
    assert_close(reference_weights(counted), PROBABILITIES)
    texts, repeated = np.repeat(TEXTS, COUNTS).tolist(), np.repeat(logprobs, COUNTS)
    segment = minrisk.Segment(texts, weights=minrisk.weights_from_logprobs(repeated, texts))
    assert_close(reference_weights(segment), PROBABILITIES)


def test_records_weigh_distinct_texts_by_probability():
    logprobs = np.log(PROBABILITIES)
    counted = {"samples": list(TEXTS), "counts": list(COUNTS), "logprobs": logprobs.tolist()}
    repeated = {"samples": np.repeat(TEXTS, COUNTS).tolist(),
                "logprobs": np.repeat(logprobs, COUNTS).tolist()}
    apart = repeated | {"references": repeated["samples"], "samples": ["x", "y"],
                        "counts": [7, 1]}  # of the hypotheses, which are no references
    for record in records_of(counted, repeated, apart):
        assert_close(reference_weights(record.segment), PROBABILITIES)


def test_weights_of_the_user_are_of_single_samples():
    fields = {"samples": list(TEXTS), "counts": list(COUNTS), "weights": [1, 2, 1]}
    (record,) = records_of(fields, by="auto")
    assert_close(reference_weights(record.segment), np.array([5, 6, 2]) / 13)


@given(values=st.lists(st.tuples(st.sampled_from("abc"), st.floats(-9, 0), st.integers(1, 4)),
                       min_size=1, max_size=8))
def test_weights_times_counts_sum_to_one(values):
    texts, logprobs, counts = zip(*values, strict=True)
    weights = minrisk.weights_from_logprobs(logprobs, texts, counts)
    assert_close(weights @ np.array(counts), 1)


def test_the_most_probable_of_equal_texts_speaks_for_them():
    weights = minrisk.weights_from_logprobs([-3.0, -1.0, -1.0], ["a", "a", "b"], lengths=[1, 2, 2])
    assert_close(weights, [0.25, 0.25, 0.5])


def test_plain_text_with_repeated_lines_weighs_each_text_once(tmp_path):
    drawn = ["a dog"] * 3 + ["the cat sat", "the cat sits"]
    logprob = {"a dog": -1.0, "the cat sat": -1.2, "the cat sits": -1.2}
    hyps = write_lines(tmp_path / "hyps.txt", drawn)
    lprobs = write_lines(tmp_path / "lprobs.txt", [logprob[text] for text in drawn])
    found = run("decode", hyps, "-n", 5, "--reference-lprobs", lprobs, "--utilities")
    texts = list(logprob)
    expected = minrisk.decode(drawn, texts, weights=np.exp(list(logprob.values())))
    assert_close(found.records[0]["utilities"], expected.utility)
    assert found.records[0]["text"] == "the cat sits"  # by counts, it would be the dog


def test_what_sample_writes_is_weighed_by_probability(server, tmp_path):
    sources = write_lines(tmp_path / "sources.txt", ["one", "two"])
    samples = run("sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", 20)
    path = tmp_path / "samples.jsonl"
    path.write_text(samples.out, encoding="utf-8")
    decoded = run("decode", path, "--weights", "logprobs", "--utilities").records
    for record, found in zip(samples.records, decoded, strict=True):
        assert max(record["counts"]) > 1
        expected = minrisk.decode(record["samples"], weights=np.exp(record["logprobs"]))
        assert_close(found["utilities"], expected.utility)


@pytest.mark.parametrize(("options", "message"), [
    ({"texts": ["a"]}, "1 logprobs .* 2"),
    ({"texts": ["a", 3]}, "int: 3"),
    ({"counts": [1, 0]}, "found 0 as number 2"),
    ({"lengths": [1, 0]}, "lengths .* number 2"),
    ({"lengths": [1]}, "2 lengths .* 1"),
    ({"temperature": 0}, "temperature .* 0"),
    ({"temperature": float("nan")}, "temperature .* nan"),
])
def test_what_cannot_be_a_weight_is_said(options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.weights_from_logprobs([-1.0, -2.0], **options)


@pytest.mark.parametrize("options", [{}, {"temperature": 5e-324}, {"lengths": [1.0, 1e308]}])
def test_log_probabilities_may_be_as_far_apart_as_numbers_are(options):
    weights = minrisk.weights_from_logprobs([-1.7e308, 0], **options)
    assert weights.tolist() == [0, 1]


def test_lengths_that_make_log_probabilities_infinite_are_told():
    with pytest.raises(minrisk.InputError, match=r"lengths .* -inf"):
        minrisk.weights_from_logprobs([-1.0], lengths=[5e-324])


ABOVE_ZERO = "logprobs must not be above 0; found 2.5 as number 2; negate losses"


def test_log_probabilities_above_zero_are_no_weights():
    with pytest.raises(minrisk.InputError, match=ABOVE_ZERO):
        minrisk.weights_from_logprobs([-1.0, 2.5])
    for strategy in ("rerank", "quality-then-mbr"):
        options = {"metric": "logprob"} if strategy == "rerank" else {"quality": "logprob"}
        with pytest.raises(minrisk.InputError, match=ABOVE_ZERO):
            minrisk.decode(["a", "b"], logprobs=[-1.0, 2.5], strategy=strategy, **options)


def test_log_probabilities_may_be_rounded_up():
    weights = minrisk.weights_from_logprobs([2e-3, 0.0])
    assert_close(weights[0] / weights[1], np.exp(2e-3))


@pytest.mark.parametrize("weights", ["logprobs", "length-normalised"])
def test_a_line_with_a_log_probability_above_zero_is_named(tmp_path, weights):
    good = {"samples": ["a cat", "a dog"], "logprobs": [-1.0, 0.0]}
    path = write(tmp_path / "in.jsonl", good, good | {"logprobs": [-1.0, 2.5]})
    _, failed = run("decode", path, "--weights", weights).records
    assert failed["error"].startswith(f"{path}:2: {ABOVE_ZERO}")
    unused = run("decode", path)
    assert "warning: logprobs" in unused.err
    assert "error" not in unused.records[1]


def test_a_line_of_plain_text_with_a_log_probability_above_zero_is_named(tmp_path):
    hyps = write_lines(tmp_path / "hyps.txt", ["a", "b"] * 2)
    lprobs = write_lines(tmp_path / "lprobs.txt", [-1.0, -2.0, -1.0, 2.5])
    _, failed = run("decode", hyps, "-n", 2, "--reference-lprobs", lprobs).records
    assert f"{lprobs}:3-4: {ABOVE_ZERO}" in failed["error"]


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


def test_an_empty_sample_of_no_tokens_can_be_weighed_by_length(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a b", ""], "logprobs": [-3.0, -1.0],
                                         "lengths": [3, 0]})
    reader = SampleReader((InputFile.at(str(path)),), Weighting("length-normalised"))
    [record] = map(reader.parse, reader.records(reader.open()))
    assert_close(record.segment.weights, [0.5, 0.5])


def test_samples_that_are_no_texts_are_told_before_their_lengths(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": [5, "a"], "logprobs": [-3.0, -1.0]})
    found = run("decode", path, "--weights", "length-normalised")
    assert "in.jsonl:1: references" in found.err


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
    assert "--weights auto" in useless.err


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("shards", [
    [minrisk.References(["a"], [1e308], [100])], [minrisk.References(["a", "b"], [1e308, 1e308])],
    [minrisk.References([text], [1e308]) for text in "ab"]])
def test_weights_that_add_up_to_infinity_are_told(shards):
    with pytest.raises(minrisk.InputError, match=r"positive .* inf"):
        minrisk.decode_parts(["a", "b"], shards)
