"""The contract of a metric, on generated cases and for every set of options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import cases
from minrisk._core.registry import METRICS
from minrisk.metrics.cider import Cider
from minrisk.metrics.edit import Cer, Edit, Wer
from minrisk.metrics.ngram.rouge import Rouge, RougeL
from minrisk.metrics.ter import Ter
from minrisk.metrics.votes.exact_match import ExactMatch, Outcomes
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.metrics.wrappers.cached import Cached
from minrisk.metrics.wrappers.combined import Combined, Cutoff, Symmetric
from minrisk.metrics.wrappers.documents import Documents
from minrisk.testing import Case, check_metric

CHRF, EITHER = minrisk.ChrF(), st.booleans()

OPTIONS = {
    "chrf": st.builds(minrisk.ChrF, order=st.integers(1, 7), word_order=st.integers(0, 3),
                      beta=st.sampled_from([0.5, 1.0, 2.0, 3.0]), whitespace=EITHER,
                      lowercase=EITHER, eps_smoothing=EITHER),
    "bleu": st.builds(minrisk.BLEU, order=st.integers(1, 5),
                      tokenize=st.sampled_from(["13a", "zh", "char", "none"]),
                      smooth_method=st.sampled_from(["exp", "floor", "add-k", "none"]),
                      smooth_value=st.sampled_from([None, 0.0, 0.3, 2.0]),
                      effective_order=EITHER, lowercase=EITHER),
    "ter": st.builds(Ter, normalized=EITHER, no_punct=EITHER, asian_support=EITHER,
                     case_sensitive=EITHER),
    "rouge": st.builds(Rouge, n=st.integers(1, 4), stemmer=EITHER),
    "rouge-l": st.builds(RougeL, stemmer=EITHER),
    "edit": st.builds(Edit, unit=st.sampled_from(["character", "word"]), lowercase=EITHER),
    "wer": st.builds(Wer, lowercase=EITHER, no_punct=EITHER),
    "cer": st.builds(Cer, lowercase=EITHER, no_punct=EITHER, whitespace=EITHER),
    "cider": st.builds(Cider, n=st.integers(1, 5), sigma=st.sampled_from([0.5, 6.0]),
                       lowercase=EITHER, no_punct=EITHER),
    "exact-match": st.builds(ExactMatch, pattern=st.sampled_from([None, "a.", r"(\w)b|(c)",
                                                                  "the (cat)?"]),
                             pick=st.sampled_from(["first", "last"]), lowercase=EITHER,
                             whitespace=EITHER, numbers=EITHER),
    "outcomes": st.builds(Outcomes, pattern=st.sampled_from([None, "a."]), lowercase=EITHER,
                          numbers=EITHER),
    "json-match": st.sampled_from([JsonMatch(), JsonMatch(by="field"), JsonMatch(ignore="a")]),
    "combined": st.builds(Combined, st.just((CHRF, ExactMatch(lowercase=True))),
                          weights=st.tuples(st.floats(-2, 2), st.floats(0, 2)),
                          by=st.sampled_from(["score", "rank"]))
    | st.builds(Combined, st.just((CHRF, Edit())),
                by=st.sampled_from(["score", "rank", "product"])),
    "symmetric": st.just(Symmetric(CHRF)),
    "cutoff": st.just(Cutoff(CHRF, 37.5)),
    "documents": st.builds(Documents, st.just(CHRF), st.sampled_from(["sentence", "line"]),
                           st.sampled_from(["uniform", "length"]), st.sampled_from([1, 12])),
    "cached": st.sampled_from([Cached(CHRF), Cached(Symmetric(Edit()))]),
}
ONE_CASE = {"symbolic", "logprob"}  # of test_every_metric.py, for they are slow, or know no texts


def test_no_metric_that_needs_no_model_is_left_out():
    light = {name for name in METRICS.builtin if METRICS.get(name).loads_model is not True}
    assert set(OPTIONS) == light - ONE_CASE


@pytest.mark.filterwarnings("ignore:.* the pattern .* matches none")  # of generated texts
@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data(), case=cases())
def test_a_metric_keeps_the_contract_whatever_its_options(name, data, case):
    check_metric(data.draw(OPTIONS[name]), [case])


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
