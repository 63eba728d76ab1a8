"""Scores of systems: sacreBLEU's numbers, at every level and with every option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

import minrisk
from generated import texts
from minrisk import InputError
from minrisk.metrics.ter import Ter

OPTIONS = [
    {},
    {"word_order": 2},
    {"order": 3, "beta": 1},
    {"whitespace": True, "lowercase": True},
    {"eps_smoothing": True, "word_order": 1},
]


def ours_and_theirs(options):
    theirs = {"char_order" if key == "order" else key: value for key, value in options.items()}
    return minrisk.ChrF(**options), sacrebleu.CHRF(**theirs)


METRICS = [
    *map(ours_and_theirs, OPTIONS),
    (minrisk.BLEU(), sacrebleu.BLEU(effective_order=True)),
    (minrisk.BLEU(order=2, smooth_method="floor"),
     sacrebleu.BLEU(max_ngram_order=2, smooth_method="floor", effective_order=True)),
    (Ter(), sacrebleu.TER()),
    (Ter(normalized=True, case_sensitive=True),
     sacrebleu.TER(normalized=True, case_sensitive=True)),
]
EACH = pytest.mark.parametrize(("ours", "theirs"), METRICS, ids=[str(ours) for ours, _ in METRICS])


def own_sign(metric):
    return -1 if getattr(metric, "is_error", False) else 1


@st.composite
def corpora(draw):
    """Hypotheses with one to three references each, as many for each line."""
    lines, refs = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    column = st.lists(texts, min_size=lines, max_size=lines)
    return draw(column), [draw(column) for _ in range(refs)]


@EACH
@given(corpus=corpora())
def test_scores_of_corpora_and_sentences_are_sacrebleus(ours, theirs, corpus):
    hyps, streams = corpus
    sign = own_sign(ours)
    found = minrisk.score({"x": hyps}, list(zip(*streams, strict=True)), metric=ours)["x"]
    assert sign * found.value == pytest.approx(theirs.corpus_score(hyps, streams).score, abs=1e-9)
    for hyp, own, sentence in zip(hyps, zip(*streams, strict=True), found.sentences, strict=True):
        assert sign * sentence == pytest.approx(theirs.sentence_score(hyp, own).score, abs=1e-9)


def outputs_and_references(records):
    """Three systems, and two references for each line."""
    outputs = {"greedy": [r["greedy"] for r in records], "beam": [r["beam5"] for r in records],
               "sample": [r["samples"][0] for r in records]}
    return outputs, [[r["reference"] for r in records], [r["samples"][1] for r in records]]


def check_significance(records, metric, theirs):
    outputs, streams = outputs_and_references(records)
    found = minrisk.score(outputs, list(zip(*streams, strict=True)), metric=metric, resamples=1000)
    _, table = PairedTest(list(outputs.items()), {metric.name: theirs}, streams, "bs", 1000)()
    sign = own_sign(metric)
    [expected] = [column for name, column in table.items() if name != "System"]
    for ours, other in zip(found.values(), expected, strict=True):
        assert sign * ours.value == pytest.approx(other.score, abs=1e-9)
        # theirs are in single precision
        assert sign * ours.mean == pytest.approx(other.mean, abs=1e-4)
        assert ours.interval == pytest.approx(other.ci, abs=1e-4)
        assert ours.p_value == other.p_value


@EACH
def test_confidence_and_significance_are_sacrebleus(bundled, ours, theirs):
    check_significance(bundled, ours, theirs)


def test_confidence_and_significance_are_sacrebleus_on_more(ntrex):
    check_significance(ntrex, *METRICS[0])


@dataclass(frozen=True)
class Common:
    """How many letters two texts have in common, if the source allows them; no statistics."""

    name: ClassVar[str] = "common"
    needs_source: ClassVar[bool] = True

    def features(self, texts):
        return np.array([[letter in text for letter in "abcd"] for text in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        return (hyps * source) @ refs.T


def test_the_difference_from_the_baseline_is_resampled_in_pairs():
    """Lines that differ much, each by the same from the baseline's: the difference is certain."""
    lines = ["a", "ab", "abc"] * 4
    systems = {"base": lines, "same": lines, "more": [f"{line}d" for line in lines]}
    found = minrisk.score(systems, ["abcd"] * 12, ["abcd"] * 12, metric=Common(), resamples=200)
    assert found["base"].ahead is None
    assert found["same"].ahead == (0, 0)
    assert found["more"].ahead == pytest.approx((1, 1))
    assert found["more"].interval > 0.3  # of itself


def test_the_interval_of_a_difference_holds_it_and_most_of_its_resamples():
    better = {"base": ["a"] * 40, "half": ["ab", "a"] * 20}
    found = minrisk.score(better, ["ab"] * 40, ["ab"] * 40, metric=Common(), resamples=1000)
    low, high = found["half"].ahead
    assert low == pytest.approx(0.5 - 1.96 * 0.5 / 40**0.5, abs=0.03)
    assert high == pytest.approx(0.5 + 1.96 * 0.5 / 40**0.5, abs=0.03)


def test_other_metrics_are_means_over_the_best_references():
    found = minrisk.score({"one": ["ab", "cd"], "two": ["abc", ""]}, ["a", ["b", "bcd"]],
                          ["abcd", "bc"], metric=Common(), resamples=50)
    assert found["one"].sentences.tolist() == [1, 1]
    assert found["two"].sentences.tolist() == [1, 0]
    assert (found["one"].value, found["two"].value) == (1, 0.5)
    assert found["one"].interval == 0
    assert found["two"].mean == pytest.approx(0.5, abs=0.1)


def test_a_system_does_not_differ_from_itself():
    lines = ["the cat", "a dog", "birds"]
    found = minrisk.score({"one": lines, "two": lines}, ["a cat", "the dog", "bird"], resamples=99)
    assert found["one"].p_value is None
    assert found["two"].p_value == 0.01  # the smallest: sacreBLEU counts what strays from zero


def test_without_resamples_there_is_no_confidence():
    found = minrisk.score({"one": ["a"], "two": ["b"]}, ["a"])
    assert [(s.mean, s.interval, s.p_value) for s in found.values()] == [(None, None, None)] * 2


@pytest.mark.parametrize(("systems", "references", "message"), [
    ({"mine": ["a"]}, ["a", "b"], "mine has 1 lines, the references have 2"),
    ({}, ["a"], "0 systems with 1 lines"),
    ({"mine": []}, [], "1 systems with 0 lines"),
    ({"mine": ["a"]}, [[]], "line 1: zero references"),
])
def test_senseless_scores_are_refused(systems, references, message):
    with pytest.raises(InputError, match=message):
        minrisk.score(systems, references)


def test_sources_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="the source has 2 lines"):
        minrisk.score({"mine": ["a"]}, ["a"], ["x", "y"])
