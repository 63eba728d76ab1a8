"""Rows of features and groups of references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minrisk._core.arrays import Distinct
from minrisk._core.batch import bind
from minrisk._core.decoding import make_metric
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.segment import Segment
from tolerance import assert_close


@given(st.lists(st.integers(0, 9), max_size=20))
def test_distinct_labels_are_those_of_numpy(labels):
    found = Distinct.from_labels(np.array(labels, np.intp), 10)
    expected = np.unique(np.array(labels, np.intp), return_index=True, return_inverse=True)
    for one, other in zip((found.labels, found.first, found.inverse), expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@pytest.fixture
def pool():
    weights = [0.5, 2, 1, 1, 0]
    [pool] = bind(make_metric("chrf"), [Segment(["a b", "c", "a b", "b", "d"], weights=weights)])
    return pool


@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 4], [1], [3, 0], [2, 2, 4]])
def test_the_utility_over_some_references_is_their_weighted_mean_score(pool, columns):
    columns = np.array(columns)
    expected = np.average(pool.scores(columns), axis=1, weights=pool.segment.weights[columns])
    assert_close(pool.utility(columns), expected)


def test_references_without_weight_have_no_utility(pool):
    with pytest.raises(InputError, match="all zero"):
        pool.utility(np.array([4]))


def test_averages_of_one_reference_each_are_the_references(pool):
    groups = Groups(np.array([3, 0, 1, 2, 4]), pool.segment.weights)
    assert pool.utility_of_averages(groups).tolist() == pool.utility().tolist()


def test_a_reference_is_left_out_by_its_weight_not_by_a_label(pool):
    with pytest.raises(InputError, match="label -1"):
        Groups(np.array([0, -1]), np.ones(2))
    some = Groups(np.array([0, 0, 1, 1, 0]), np.array([1.0, 0, 1, 1, 0]))
    [fewer] = bind(pool.metric, [Segment(pool.segment.hypotheses, ["a b", "a b", "b"])])
    expected = fewer.utility_of_averages(Groups(np.array([0, 1, 1]), np.ones(3)))
    assert_close(pool.utility_of_averages(some), expected)


@pytest.mark.parametrize("rows", [[], [0], [2, 0, 2], [3, 2, 1, 0], slice(1, 3),
                                  np.array([True, False, True, False])])
def test_selected_texts_are_the_members_of_their_rows(rows):
    plain = WeightedRows.plain("metric", "base", np.array([5, 3, 8, 1]))
    chosen = np.array(rows, np.intp) if isinstance(rows, list) else rows
    found = plain[chosen]
    members, offsets = plain._expand(np.arange(4)[chosen])  # as of any rows
    assert found.is_plain
    assert found.members.tolist() == plain.members[members].tolist()
    assert found.offsets.tolist() == offsets.tolist()
    assert found.weights.tolist() == plain.weights[members].tolist()


@pytest.mark.parametrize("name", ["chrf", "bleu", "rouge", "cider", "exact-match"])
def test_features_of_another_kind_get_our_error(name):
    with pytest.raises(InputError, match="ndarray"):
        make_metric(name).scores(np.array(["a"]), np.array(["b"]))
