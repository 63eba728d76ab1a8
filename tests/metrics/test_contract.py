"""The contract of a metric, on generated cases and for every set of options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import FEW, cases
from minrisk.testing import (
    AGGREGATE_CHECKS,
    METRIC_CHECKS,
    PARTS_CHECKS,
    Case,
    check_metric,
    check_strategy,
)

CHRF = st.builds(
    minrisk.ChrF,
    order=st.integers(1, 7),
    word_order=st.integers(0, 3),
    beta=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    whitespace=st.booleans(),
    lowercase=st.booleans(),
    eps_smoothing=st.booleans(),
)
BLEU = st.builds(
    minrisk.BLEU,
    order=st.integers(1, 5),
    tokenize=st.sampled_from(["13a", "zh", "char", "none"]),
    smooth_method=st.sampled_from(["exp", "floor", "add-k", "none"]),
    smooth_value=st.sampled_from([None, 0.0, 0.3, 2.0]),
    effective_order=st.booleans(),
    lowercase=st.booleans(),
)


@pytest.mark.parametrize("check", [*METRIC_CHECKS, *AGGREGATE_CHECKS, *PARTS_CHECKS],
                         ids=lambda c: c.__name__)
@given(metric=st.one_of(CHRF, BLEU), case=cases())
def test_metrics_of_ngrams_keep_the_contract(check, metric, case):
    check(metric, case, 1e-9)


@FEW
@given(segments=st.lists(cases(), min_size=1, max_size=3))
@pytest.mark.parametrize(
    "strategy",
    [
        minrisk.Standard(minrisk.ChrF()),
        minrisk.Standard(minrisk.ChrF(), leave_self_out=True),
        minrisk.NByS(minrisk.ChrF(), subset=1),
        minrisk.Aggregate(minrisk.ChrF()),
        minrisk.AggregateToFine(minrisk.ChrF()),
        minrisk.CoarseToFine(minrisk.ChrF(), coarse=minrisk.ChrF(order=2)),
    ],
    ids=lambda s: s.name,
)
def test_every_strategy_keeps_the_contract(strategy, segments):
    check_strategy(strategy, [minrisk.Segment(c.hyps, position=i) for i, c in enumerate(segments)])


class _Faulty:
    """Word overlap with one planted fault; the contract must notice each."""

    name = "faulty"

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def features(self, texts):
        words = ["cat", "mat", "the", "on"]
        return np.array([[t.count(w) for w in words] for t in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        matrix = np.minimum(hyps[:, None], refs[None]).sum(2)
        if self.fault == "position":
            matrix = matrix + np.arange(len(refs))
        return matrix

    def aggregate(self, refs, groups):
        share = groups.share
        if self.fault == "weights dropped":
            share = 1 / np.bincount(groups.labels)[groups.labels]
        if self.fault == "not normalised":
            share = share * 0.5
        total = np.zeros((len(groups), refs.shape[1]))
        np.add.at(total, groups.labels, share[:, None] * refs)
        return total

    def utility(self, hyps, refs, mass, source=None):
        if self.fault == "mass ignored":
            return self.scores(hyps, refs).mean(axis=1)
        return self.scores(hyps, refs) @ mass

    def partial_statistics(self, hyps, refs, weights):
        if self.fault == "statistics averaged":
            weights = weights / max(weights.sum(), 1)
        if self.fault == "statistics without weights":
            weights = np.ones_like(weights)
        return weights @ refs

    def finalize(self, hyps, statistics, source=None):
        return np.minimum(hyps, statistics).sum(1)


def test_the_contract_accepts_a_sound_metric():
    check_metric(_Faulty("none"))


@pytest.mark.parametrize("fault", ["position", "weights dropped", "not normalised", "mass ignored",
                                   "statistics averaged", "statistics without weights"])
def test_the_contract_notices_a_planted_fault(fault):
    with pytest.raises(AssertionError):
        check_metric(_Faulty(fault))


class _Rounding:
    """Common letters, of which some texts have none, with an error that depends on the batch."""

    name = "rounding"

    def __init__(self, error: float) -> None:
        self.error = error

    def features(self, texts):
        return np.array([[t.count(letter) for letter in "abc"] for t in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        return hyps @ refs.T + self.error * len(refs)


def test_the_contract_lets_a_score_of_zero_err_as_much_as_the_largest():
    case = Case(["aa", "bb"], ["aa", "bb", "c"], [0, 0, 0], [1, 1, 1])
    check_metric(_Rounding(1e-5), [case], rtol=1e-5)
    with pytest.raises(AssertionError):
        check_metric(_Rounding(1e-4), [case], rtol=1e-5)
