"""What the tokens of a sample say: by definition, through files, and as signals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk._core.calibration import SIGNALS
from minrisk._core.token_confidence import CONFIDENCES, lowest_and_tail, self_certainty
from minrisk.openai.responses import read_choices
from tolerance import assert_close

LOGPROBS = st.lists(st.floats(-30, 0), min_size=1, max_size=40)
SEGMENT = {"samples": ["it is 7", "7", "8"], "counts": [1, 2, 1], "logprobs": [-4.0, -1.0, -2.0],
           "lengths": [4, 1, 1], "lowest_logprobs": [-2.0, -1.0, -5.0],
           "tail_logprobs": [-0.5, -1.0, -5.0], "certainties": [3.0, 6.0, 1.0]}


@given(LOGPROBS, st.integers(1, 50))
def test_the_lowest_group_is_the_least_of_all_and_the_tail_the_last(logprobs, window):
    width = min(window, len(logprobs))
    means = [np.mean(logprobs[start:start + width]) for start in range(len(logprobs) - width + 1)]
    lowest, tail = lowest_and_tail(logprobs, window)
    assert_close([lowest, tail], [min(means), means[-1]], "fp64", scale=30)


@pytest.mark.parametrize(("top", "certainty"), [
    ([[-1.0, -2.0], [-3.0, -4.0]], 2.5),
    ([[-1.0, -2.0], [-9.0, -4.0, -3.0]], 2.5),  # the sampled token was not among the likeliest
    ([[-1.0], [-3.0, -4.0]], None), ([], None)])
def test_self_certainty_is_of_as_many_tokens_at_every_position(top, certainty):
    assert self_certainty(top) == certainty


def test_a_sharper_distribution_is_more_certain():
    flat, sharp = (np.log(p) for p in ([[0.3, 0.3, 0.3]], [[0.9, 0.05, 0.01]]))
    assert self_certainty(sharp) > self_certainty(flat)


@pytest.mark.parametrize("found", [
    {"content": [{"logprob": t, "top_logprobs": [{"logprob": t}, {"logprob": t - 2}]}
                 for t in (-1.0, -3.0, -2.0)]},
    {"token_logprobs": [-1.0, -3.0, -2.0],
     "top_logprobs": [{"a": t, "b": t - 2} for t in (-1.0, -3.0, -2.0)]}])
def test_both_formats_of_a_server_say_the_same(found):
    [choice] = read_choices({"choices": [{"text": "a", "logprobs": found}]}, window=2)
    sample = choice.sample("a")
    assert (sample.logprob, sample.length) == (-6.0, 3)
    assert (sample.lowest_logprob, sample.tail_logprob, sample.certainty) == (-2.5, -2.5, 3.0)


@pytest.mark.parametrize("top", [7, "x", [7, None, "x"], [[{"logprob": "x"}]], [[{}], [None]],
                                 [[{"logprob": -10**400}, {"logprob": -1.0}]]])
def test_odd_lists_of_likely_tokens_give_no_certainty(top):
    [choice] = read_choices({"choices": [{"text": "a", "logprobs": {
        "token_logprobs": [-1.0, -3.0], "top_logprobs": top}}]})
    assert (choice.logprob, choice.certainty) == (-4.0, None)


def test_a_confidence_has_the_means_over_the_samples_with_its_answer():
    vote = minrisk.Confident(minrisk.Standard(minrisk.ExactMatch(r"\d+")))
    [result] = minrisk.decode_corpus([SEGMENT], strategy=vote)
    found = result.confidence
    assert_close([found.lowest_logprob, found.tail_logprob, found.certainty],
                 [-4 / 3, -2.5 / 3, 5.0], "fp64", scale=5)
    for name in CONFIDENCES:
        assert SIGNALS[f"confidence.{name}"].value_in(result.ranking) == getattr(found, name)


@pytest.mark.parametrize("by", [None, "parquet"])
def test_files_have_them_and_give_them_back(tmp_path, by):
    given = minrisk.Segment(SEGMENT["samples"], counts=SEGMENT["counts"], confidences={
        name: SEGMENT[name] for name in CONFIDENCES.values()})
    [direct] = minrisk.decode_corpus([given], metric="exact-match", confidence=True)
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(SEGMENT))
    if by:
        pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
        path = tmp_path / "in.parquet"
        parquet.write_table(pyarrow.Table.from_pylist([SEGMENT]), path)
    [read] = minrisk.decode_corpus(str(path), metric="exact-match", confidence=True)
    for name in CONFIDENCES:
        assert getattr(read.confidence, name) == getattr(direct.confidence, name) is not None


@pytest.mark.parametrize("changed", [
    {"lowest_logprobs": [-1.0]}, {"certainties": ["x", 1, 1]}, {"tail_logprobs": 3}])
def test_columns_that_do_not_fit_the_samples_are_refused(changed):
    with pytest.raises(minrisk.InputError, match=next(iter(changed))):
        [*minrisk.decode_corpus([SEGMENT | changed])]


def test_unknown_confidences_are_refused():
    with pytest.raises(minrisk.InputError, match="lowest"):
        minrisk.Segment(["a"], confidences={"lowest": [1.0]})
