"""Rows of features and groups of references: what is quick is what the general way finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minrisk._core.arrays import distinct_labels
from minrisk._core.decoding import make_metric
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, WeightedRows


@given(st.lists(st.integers(0, 9), max_size=20))
def test_distinct_labels_are_those_of_numpy(labels):
    found = distinct_labels(np.array(labels, np.intp), 10)
    for one, other in zip(found, np.unique(np.array(labels, np.intp), return_inverse=True),
                          strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@given(st.lists(st.floats(0.1, 9), min_size=1, max_size=9))
def test_singletons_are_groups_of_one_reference_each(weights):
    given = np.array(weights)
    quick, general = Groups.singletons(given), Groups(np.arange(given.size), given)
    for name in ("members", "are_singletons", "mass", "share"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(general, name))


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
    with pytest.raises(InputError, match=r"expected what the metric's `features` .* got ndarray"):
        make_metric(name).scores(np.array(["a"]), np.array(["b"]))
