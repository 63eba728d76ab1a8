"""Scores of systems: sacreBLEU's numbers, at every level and with every option."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import texts
from minrisk import InputError
from minrisk._core.signature import metric_signature
from minrisk.evaluation import scoring
from minrisk.evaluation.scoring import compare_means, score_signature
from minrisk.metrics.ter import Ter
from small_metrics import Common, Shared
from tolerance import assert_close

sacrebleu = pytest.importorskip("sacrebleu", reason="needs sacrebleu, whose numbers ours are")

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
    assert_close(sign * found.value, theirs.corpus_score(hyps, streams).score, scale=100)
    for hyp, own, sentence in zip(hyps, zip(*streams, strict=True), found.sentences, strict=True):
        assert_close(sign * sentence, theirs.sentence_score(hyp, own).score, scale=100)


SIGNED = [
    (minrisk.BLEU(), sacrebleu.BLEU()),
    (minrisk.BLEU(effective_order=False), sacrebleu.BLEU()),
    (minrisk.BLEU(tokenize="intl", lowercase=True), sacrebleu.BLEU(tokenize="intl",
                                                                    lowercase=True)),
    (minrisk.BLEU(smooth_method="floor"), sacrebleu.BLEU(smooth_method="floor")),
    (minrisk.BLEU(smooth_method="add-k", smooth_value=0.25),
     sacrebleu.BLEU(smooth_method="add-k", smooth_value=0.25)),
    *(ours_and_theirs(options) for options in OPTIONS if "beta" not in options),
    (Ter(), sacrebleu.TER()),
    (Ter(normalized=True, no_punct=True, asian_support=True, case_sensitive=True),
     sacrebleu.TER(normalized=True, no_punct=True, asian_support=True, case_sensitive=True)),
]


def signed(metric, hyps, streams, **options):
    scores = minrisk.score(hyps, list(zip(*streams, strict=True)), metric=metric, **options)
    found = scores.signature.removeprefix(f"{metric.name}|")
    return found.removesuffix(f"|version:minrisk-{minrisk.__version__}")


def theirs_of(metric):
    return str(metric.get_signature()).rpartition("|version:")[0]


@pytest.mark.parametrize(("ours", "theirs"), SIGNED, ids=[str(ours) for ours, _ in SIGNED])
def test_signatures_are_sacrebleus(ours, theirs):
    hyps, streams = ["the cat sat on the mat", "no"], [["a cat sat on a mat", "yes"]] * 2
    theirs.corpus_score(hyps, streams)
    assert signed(ours, hyps, streams) == theirs_of(theirs)


def test_signatures_of_resampled_scores_are_sacrebleus():
    hyps, streams, theirs = ["the cat sat on the mat"], [["a cat sat on a mat"]], sacrebleu.BLEU()
    theirs.corpus_score(hyps, streams, n_bootstrap=100)
    assert signed(minrisk.BLEU(), hyps, streams, resamples=100) == theirs_of(theirs)


def test_an_effective_order_that_counts_is_in_the_signature():
    short, long = ["a cat", "no"], ["a cat sat on the mat", "no"]
    assert "|eff:yes|" in signed(minrisk.BLEU(), short, [long])
    assert "|eff:no|" in signed(minrisk.BLEU(), long, [short])
    assert "|eff:yes|" in score_signature(minrisk.BLEU(), 1)


@pytest.mark.parametrize("metric", [
    Common(), minrisk.ChrF(beta=1), minrisk.BLEU(order=2),
    minrisk.BLEU(smooth_method="floor", smooth_value=0.125)])  # which it rounds to 0.12
def test_what_sacrebleu_could_not_say_has_our_signature(metric):
    found = minrisk.score(["a"], ["a"], ["a"], metric=metric)
    assert found.signature == f"{metric.name}|{metric_signature(metric, nrefs=1)}"


def test_quality_needs_no_references():
    systems = {"one": ["ab", "cd"], "two": ["abc", ""]}
    found = minrisk.score(systems, sources=["abcd", "bc"], metric=Shared(), resamples=10)
    assert found["one"].sentences.tolist() == [2, 1]
    assert found["two"].sentences.tolist() == [3, 0]
    assert found["two"].value == 1.5


def outputs_and_references(records):
    """Three systems, and two references for each line."""
    outputs = {"greedy": [r["greedy"] for r in records], "beam": [r["beam5"] for r in records],
               "sample": [r["samples"][0] for r in records]}
    return outputs, [[r["reference"] for r in records], [r["samples"][1] for r in records]]


def check_significance(records, metric, theirs):
    from sacrebleu.significance import PairedTest

    outputs, streams = outputs_and_references(records)
    found = minrisk.score(outputs, list(zip(*streams, strict=True)), metric=metric, resamples=1000,
                          test="bootstrap")
    _, table = PairedTest(list(outputs.items()), {metric.name: theirs}, streams, "bs", 1000)()
    sign = own_sign(metric)
    [expected] = [column for name, column in table.items() if name != "System"]
    for ours, other in zip(found.values(), expected, strict=True):
        assert_close(sign * ours.value, other.score)
        assert_close(sign * ours.mean, other.mean, "fp32")
        assert_close(ours.interval, other.ci, "fp32", scale=abs(other.score))
        assert ours.p_value == other.p_value


@EACH
def test_confidence_and_significance_are_sacrebleus(bundled, ours, theirs):
    check_significance(bundled, ours, theirs)


def test_confidence_and_significance_are_sacrebleus_on_more(ntrex):
    check_significance(ntrex, *METRICS[0])


@pytest.mark.parametrize("block", [1, 1 << 22])
def test_permutations_are_sacrebleus_where_none_of_them_ties(block, monkeypatch):
    from sacrebleu.significance import PairedTest

    monkeypatch.setattr(scoring, "_EXCHANGES_PER_BLOCK", block)
    rng = np.random.default_rng(0)
    one, two, refs = ([" ".join(map(str, rng.integers(300, size=12))) for _ in range(100)]
                      for _ in range(3))
    found = minrisk.score({"one": one, "two": two}, refs, resamples=100)["two"]
    signatures, table = PairedTest([("one", one), ("two", two)], {"chrF": sacrebleu.CHRF()},
                                   [refs], "ar", 100, 100)()
    assert found.p_value == table["chrF2"][1].p_value
    assert found.signature.partition("|version")[0] == (
        f"chrf|{str(signatures['chrF2']).partition('|version')[0]}")


def test_permutations_that_tie_count():
    """One line differs: each permutation makes the observed difference, or its opposite."""
    systems = {"one": ["ab", "cd", "ef"], "two": ["ab", "cd", "xy"]}
    found = minrisk.score(systems, ["ab", "cd", "ef"], resamples=99)["two"]
    assert found.p_value == 1


@pytest.mark.parametrize("lines", [30, 200])
def test_the_p_value_has_its_level(lines):
    """Systems without a difference, in 2,000 tests of pairs of their own."""
    rng, tests = np.random.default_rng(1), 2000
    one, two = rng.exponential(size=(2, tests, lines))
    systems = {str(k): own for k, own in enumerate(one - two)}
    found = compare_means({"none": np.zeros(lines)} | systems, resamples=99)
    wrong = sum(found[name].p_value <= 0.05 for name in systems) / tests
    assert abs(wrong - 0.05) <= 3 * (0.05 * 0.95 / tests) ** 0.5  # standard deviations: 0.015


def test_a_difference_is_found():
    rng = np.random.default_rng(2)
    base = rng.exponential(size=100)
    found = compare_means({"base": base, "more": base + rng.normal(0.5, 1, size=100),
                           "less": base - rng.normal(0.5, 1, size=100)}, resamples=999)
    assert found["more"].p_value < 0.01
    assert found["less"].p_value < 0.01


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
    assert found["two"].p_value == 1


def test_without_resamples_there_is_no_confidence():
    found = minrisk.score({"one": ["a"], "two": ["b"]}, ["a"])
    assert [(s.mean, s.interval, s.p_value) for s in found.values()] == [(None, None, None)] * 2


@pytest.mark.parametrize(("systems", "references", "message"), [
    ({"mine": ["a"]}, ["a", "b"], "mine has 1"),
    ({}, ["a"], "0 systems"),
    ({"mine": []}, [], "0 lines"),
    ({"mine": ["a"]}, [[]], "line 1"),
])
def test_senseless_scores_are_refused(systems, references, message):
    with pytest.raises(InputError, match=message):
        minrisk.score(systems, references)


@pytest.mark.parametrize(("arguments", "message"), [
    (({"mine": ["a"]},), "references nor sources"),
    (({"mine": ["a"]}, None, ["a", "b"]), "mine has 1"),
    (({"mine": ["a"]}, None, ["a"]), "'chrf'"),
    (({"mine": "a"}, ["a"]), "mine must"),
])
def test_arguments_that_make_no_sense_are_told(arguments, message):
    with pytest.raises(InputError, match=message):
        minrisk.score(*arguments)


def test_sources_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="source"):
        minrisk.score({"mine": ["a"]}, ["a"], ["x", "y"])


@pytest.mark.parametrize("options", [{}, {"resamples": 20, "seed": 1, "test": "bootstrap"}])
def test_several_metrics_give_the_scores_of_each(options):
    outputs = {"one": ["a b"], "two": ["a c"]}
    found = minrisk.score(outputs, ["a c"], metric=["bleu", minrisk.ChrF()], **options)
    assert found == {name: minrisk.score(outputs, ["a c"], metric=name, **options)
                     for name in ("bleu", "chrf")}
