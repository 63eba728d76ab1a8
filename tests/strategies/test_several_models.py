"""Samples of several models: weights, names in records, and how far the models disagree."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk import Segment, decode
from minrisk._core.calibration import SIGNALS
from minrisk._core.sampler import Sample, columns
from minrisk.io.records import segment_of
from minrisk.io.segments import columns_of
from minrisk.io.weighting import Weighting
from report_pages import page_data

SAMPLES = st.lists(st.sampled_from(["4", "5", "six", ""]), min_size=1, max_size=5)


def measured(segment, metric=None):
    chosen = minrisk.ExactMatch(r"\d") if metric is None else metric
    strategy = minrisk.Confident(minrisk.make_strategy("standard", chosen))
    return decode(segment, strategy=strategy).confidence.disagreement


def of_models(**texts):
    """The segment of these samples by model."""
    return segment_of([Sample(text, model=model) for model, own in texts.items() for text in own],
                      None, Weighting())


@pytest.mark.filterwarnings("ignore:.*matches none of")
@given(SAMPLES, SAMPLES)
def test_disagreement_is_one_minus_agreement_between_models_by_that_within(one, other):
    def same(x, y):
        return x == y and x.isdigit()

    within = [np.mean([same(x, y) for x, y in permutations(own, 2)])
              for own in (one, other) if len(own) > 1]
    between = np.mean([same(x, y) for x, y in product(one, other)])
    found = measured(of_models(a=one, b=other))
    if not within or np.mean(within) == 0:
        assert found is None
    else:
        assert found == pytest.approx(np.clip(1 - between / np.mean(within), 0, 1))


def test_the_order_and_the_number_of_models_do_not_bound_it():
    texts = {"a": ["4", "4", "5"], "b": ["4", "4"], "c": ["5", "5", "5"]}
    found = measured(of_models(**texts))
    assert found == pytest.approx(measured(of_models(**dict(reversed(texts.items())))))
    within = (1 / 3 + 1 + 1) / 3
    between = (2 / 3 + 1 / 3 + 0) / 3
    assert found == pytest.approx(1 - between / within)


def test_it_grades_texts_by_a_graded_metric():
    near = of_models(a=["the cat sat", "the cat sat"], b=["the cat sits", "the cat sat"])
    far = of_models(a=["the cat sat", "the cat sat"], b=["eight dogs", "eight dogs ran"])
    assert measured(near, "chrf") < measured(far, "chrf") <= 1


@pytest.mark.parametrize("segment", [
    Segment(["4", "5"]), Segment(["4", "5"], models=["a", "a"]),
    Segment(["4", "5"], models=["a", "b"]), Segment(["4"], ["4", "5"], models=["a"])])
def test_one_model_single_samples_and_given_references_have_none(segment):
    assert measured(segment) is None


def test_a_sample_that_is_no_candidate_still_disagrees():
    names = ["a", "a", "b", "b"]
    whole = Segment(["4", "4", "4", ""], models=names)
    some = whole.keep(np.arange(3))
    assert measured(some) == pytest.approx(measured(whole))


def test_a_choice_without_the_signal_is_the_least_sure():
    found = SIGNALS["confidence.disagreement"].in_order(np.array([0.9, np.nan, 0.1]))
    assert found[2] > found[0] >= found[1]


def test_equal_texts_of_different_models_keep_their_rows_and_their_weights():
    samples = [Sample("4", model="a", weight=3.0), Sample("5", model="b"), Sample("4", model="b"),
               Sample("5", model="b")]
    found = columns(samples)
    assert found["samples"] == ["4", "5", "4"]
    assert found["models"] == ["a", "b", "b"]
    assert found["counts"] == [1, 2, 1]
    segment = segment_of(samples, None, Weighting("uniform"))
    assert decode(segment, metric="exact-match").text == "4"  # 3 + 1 against 2
    assert decode([s.text for s in samples], metric="exact-match",
                  strategy="standard").utility.tolist() == [0.5, 0.5, 0.5, 0.5]


def test_log_probabilities_are_compared_within_a_model_only():
    """A model with small probabilities weighs as much as its samples, and not nothing."""
    samples = [Sample("4", logprob=-1.0, model="a"), Sample("5", logprob=-2.0, model="a"),
               Sample("6", logprob=-300.0, model="b", weight=2.0),
               Sample("7", logprob=-300.0, model="b", weight=2.0)]
    segment = segment_of(samples, None, Weighting("logprobs"))
    share = 1 / (1 + np.exp(-1))
    assert segment.weights == pytest.approx([share / 3, (1 - share) / 3, 1 / 3, 1 / 3])


def test_records_of_several_models_are_read_as_they_were_written():
    samples = [Sample("4", logprob=-1.0, model="Qwen/ü", weight=2.0),
               Sample("5", logprob=-1.0, model="b")]
    line = {"id": "x", **columns(samples)}
    for weights in ("auto", "logprobs"):
        [result] = minrisk.decode_corpus([line], metric="exact-match", weights=weights)
        assert result.segment.models == ("Qwen/ü", "b")
        assert result.segment.weights == pytest.approx([2 / 3, 1 / 3])
        assert columns_of(result.segment)["models"] == ["Qwen/ü", "b"]
        assert "models" not in result.fields


@pytest.mark.parametrize("own", ["mine", ["x"], [1, 2], {"a": 1}])
def test_a_field_of_the_user_with_this_name_is_copied(own):
    [result] = minrisk.decode_corpus([{"samples": ["a", "b"], "models": own}])
    assert result.fields["models"] == own
    assert result.segment.models is None


def test_the_page_has_the_models_of_each_text():
    record = {"samples": ["4", "5", "4"], "counts": [2, 1, 1], "models": ["a", "a", "b"]}
    details = page_data(minrisk.inspect([record], metric="exact-match").html).details[0]
    assert dict(zip(details["texts"], details["models"], strict=True)) == {
        "4": {"a": 2, "b": 1}, "5": {"a": 1}}
    plain = page_data(minrisk.inspect([{"samples": ["4", "5"]}]).html).details[0]
    assert "models" not in plain
