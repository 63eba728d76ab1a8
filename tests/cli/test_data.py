"""Segments, groups, rankings, names and signatures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk._core.batch import Batch, bind
from minrisk._core.groups import Groups
from minrisk._core.options import inner_field
from minrisk._core.registry import METRICS, STRATEGIES, Registry
from minrisk._core.signature import signature
from tolerance import assert_close


@given(count=st.integers(1, 50), data=st.data())
def test_split_covers_every_reference_in_sizes_within_one(count, data):
    groups = data.draw(st.integers(1, count))
    rng = data.draw(st.sampled_from([None, np.random.default_rng(0)]))
    split = Groups.split(np.ones(count), groups, rng)
    sizes = np.bincount(split.labels, minlength=groups)
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1
    assert len(split) == groups


@given(weights=st.lists(st.integers(0, 5), min_size=1, max_size=20).filter(any), data=st.data())
def test_mass_and_share_sum_to_one(weights, data):
    labels = data.draw(st.lists(st.integers(0, 3), min_size=len(weights), max_size=len(weights)))
    groups = Groups(np.array(labels), np.array(weights, dtype=float))
    assert_close(groups.mass.sum(), 1)
    for g in range(len(groups)):
        if np.any(groups.labels == g):
            assert_close(groups.share[groups.labels == g].sum(), 1)


def test_references_default_to_the_hypotheses_with_even_weights():
    segment = minrisk.Segment(["a", "b"])
    assert segment.references is segment.hypotheses
    np.testing.assert_array_equal(segment.weights, [0.5, 0.5])


def test_keeping_hypotheses_keeps_the_references():
    kept = minrisk.Segment(["a", "b", "c"], weights=[1, 2, 1], position=7).keep(np.array([2, 0]))
    assert kept.hypotheses == ("c", "a")
    assert kept.references == ("a", "b", "c")
    assert kept.position == 7
    np.testing.assert_array_equal(kept.self_columns, [2, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hypotheses": []}, "zero hypotheses"),
        ({"hypotheses": ["a"], "references": []}, "zero references"),
        ({"hypotheses": "abc"}, "not one string"),
        ({"hypotheses": ["a", 3]}, "found int: 3"),
        ({"hypotheses": ["a", "b"], "weights": [1]}, "2 weights"),
        ({"hypotheses": ["a", "b"], "weights": [1, -1]}, "not negative"),
        ({"hypotheses": ["a", "b"], "weights": [1, float("nan")]}, "finite"),
        ({"hypotheses": ["a", "b"], "weights": [0, 0]}, "all zero"),
        ({"hypotheses": ["a", "b"], "weights": ["x", "y"]}, "numbers"),
        ({"hypotheses": ["a", "b"], "weights": [[1, 1]]}, "1 x 2"),
    ],
)
def test_a_senseless_segment_is_refused(arguments, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.Segment(**arguments)


def test_logprobs_become_probabilities():
    weights = minrisk.weights_from_logprobs([-1000.0, -1000.0 + np.log(3)])
    assert_close(weights, [0.25, 0.75])
    assert_close(minrisk.weights_from_logprobs([0.0, -np.inf]), [1, 0])


@pytest.mark.parametrize("bad", [[float("nan"), 0], [float("inf"), 0], [-np.inf, -np.inf]])
def test_senseless_logprobs_are_refused(bad):
    with pytest.raises(minrisk.InputError, match="logprobs"):
        minrisk.weights_from_logprobs(bad)


@given(st.lists(st.sampled_from([1.0, 2.0, float("nan")]), min_size=1, max_size=8))
def test_a_ranking_is_stable_and_puts_the_unknown_last(utility):
    order = minrisk.Ranking.from_utility(np.array(utility)).order
    known = [-u if u == u else 1 for u in utility]
    assert list(order) == sorted(range(len(utility)), key=lambda i: (known[i], i))


def test_a_batch_finds_its_features_again():
    metric = minrisk.ChrF()
    batch = Batch([minrisk.Segment(["a", "b", "a"]), minrisk.Segment(["c"])])
    first = bind(metric, batch)
    kept = bind(minrisk.ChrF(), batch.keep([np.array([1]), np.array([0])]))
    assert kept[0].texts is first[0].texts
    assert kept[0].segment.hypotheses == ("b",)


def test_the_matrix_has_a_row_and_a_column_for_each_duplicate():
    [pool] = bind(minrisk.ChrF(), [minrisk.Segment(["a b", "c", "a b"], ["c", "c", "a b"])])
    assert_close(pool.scores(), [[0, 0, 100], [100, 100, 0], [0, 0, 100]])


def test_plug_ins_are_found_and_built_in_names_win(monkeypatch):
    points = {"mine": "minrisk.metrics.ngram.chrf:ChrF", "chrf": "nowhere:Nothing"}
    monkeypatch.setattr("minrisk._core.registry._entry_points", lambda group: points)
    assert METRICS.names() == [*METRICS.builtin, "mine"]
    assert METRICS.make("mine", order=2) == minrisk.ChrF(order=2)
    assert METRICS.get("chrf") is minrisk.ChrF


def test_every_built_in_name_is_the_name_of_its_class():
    for registry in (METRICS, STRATEGIES):
        for name in registry.builtin:
            cls = registry.get(name)
            if inner_field(cls) is None:  # a wrapper is named by what it holds
                assert cls.name == name


def test_a_wrapper_is_named_so_that_its_name_makes_it():
    for name in ("chrf*0.5+ter", "symmetric:chrf", "cached:symmetric:ter"):
        assert METRICS.make(name).name == name


def test_an_empty_registry_still_answers():
    with pytest.raises(minrisk.InputError, match="'x'"):
        Registry("thing", "minrisk.nothing").get("x")


def test_the_signature_says_everything_once():
    strategy = minrisk.make_strategy("aggregate-to-fine", minrisk.ChrF(word_order=2), keep=5)
    assert signature(strategy) == (
        "strategy:aggregate-to-fine|metric:chrf|metric.order:6|metric.word_order:2|metric.beta:2.0"
        "|metric.whitespace:no|metric.lowercase:no|metric.eps_smoothing:no|keep:5|groups:1"
        f"|contiguous:no|leave_self_out:no|seed:0|version:{minrisk.__version__}")


def test_an_option_version_is_in_the_signature_beside_the_version_of_minrisk():
    parts = signature(minrisk.MetricX(version="24"), "metric").split("|")
    assert parts[0] == "metric:metricx"
    assert parts[-2:] == ["metricx.version:24", f"version:{minrisk.__version__}"]


def test_threads_must_be_positive():
    with pytest.raises(minrisk.InputError, match="threads"):
        minrisk.set_threads(0)


def test_counts_are_bounded_where_they_are_unrolled():
    most = minrisk.Segment(["a", "b"], counts=[2**20 - 1, 1])
    assert len(most.references) == 2**20
    with pytest.raises(minrisk.InputError, match="1,048,577"):
        minrisk.Segment(["a", "b"], counts=[2**20, 1])
    shard = minrisk.References(["a", "b"], counts=[2**40, 1])  # which is not
    assert minrisk.decode_parts(["a", "b"], [shard]).text == "a"
    weights = minrisk.weights_from_logprobs([-1.0, -1.0], ["a", "b"], [2**40, 1])
    assert_close(weights * [2**40, 1], 0.5)


def test_rows_of_counted_samples_are_those_of_repeated_ones():
    hyps, counts = ["a", "b", "a", "c"], [2, 1, 3, 1]
    [counted] = minrisk.bind(minrisk.ChrF(), [minrisk.Segment(hyps, counts=counts)])
    [repeated] = minrisk.bind(minrisk.ChrF(), [minrisk.Segment(np.repeat(hyps, counts).tolist())])
    np.testing.assert_array_equal(counted.ref_rows, repeated.ref_rows)
    rows = np.array([3, 0])
    [kept] = minrisk.bind(minrisk.ChrF(), [minrisk.Segment(hyps, counts=counts).keep(rows)])
    assert_close(kept.utility(), counted.utility()[rows])
