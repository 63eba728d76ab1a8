"""chrF has sacreBLEU's numbers, on any text, from every core."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

fastchrf = pytest.importorskip("fastchrf", reason="needs fastchrf, whose numbers ours are")
pytest.importorskip("sacrebleu", reason="needs sacrebleu, whose numbers ours are")

from sacrebleu.metrics.chrf import CHRF

import minrisk
from generators import cases, text_lists, texts
from minrisk import _native
from minrisk._core.groups import Groups
from native_twin import check_twin
from small_metrics import scores
from tolerance import assert_close

CHECK_HYPS = ["The cat sat on the mat.", "The cat sat on the hat."]
CHECK_REFS = ["The cat sat on the mat.", "The fat cat sat on the mat.", "A cat sat on a mat."]


def sacrebleu_scores(metric: minrisk.ChrF, hyps: list[str], refs: list[str]) -> np.ndarray:
    theirs = CHRF(char_order=metric.order, word_order=metric.word_order, beta=metric.beta,
                  whitespace=metric.whitespace, lowercase=metric.lowercase,
                  eps_smoothing=metric.eps_smoothing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([[theirs.sentence_score(h, [r]).score for r in refs] for h in hyps])


METRICS = st.builds(
    minrisk.ChrF,
    order=st.integers(1, 8),
    word_order=st.integers(0, 3),
    beta=st.sampled_from([1, 2, 3]),
    whitespace=st.booleans(),
    lowercase=st.booleans(),
    eps_smoothing=st.booleans(),
)


@given(metric=METRICS, hyps=text_lists, refs=text_lists)
@example(minrisk.ChrF(), [""], [""])
@example(minrisk.ChrF(), ["", "a"], ["a", ""])
@example(minrisk.ChrF(word_order=2), ["(hi) there.", "!", "..."], ["hi there", "?!", "."])
@example(minrisk.ChrF(), ["a\x1cb\x1dc\x1ed\x1fe"], ["abcde"])
@example(minrisk.ChrF(lowercase=True), ["İSTANBUL ẞ"], ["i̇stanbul ß"])
def test_every_pair_equals_sacrebleu(metric, hyps, refs):
    assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs), scale=100)


def test_real_samples_equal_sacrebleu(fastchrf_samples):
    hyps, refs = fastchrf_samples[:12], fastchrf_samples[500:540]
    for metric in (minrisk.ChrF(), minrisk.ChrF(word_order=2)):
        assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs))


def test_the_readme_values_of_fastchrf():
    metric = minrisk.ChrF()
    assert_close(scores(metric, CHECK_HYPS, CHECK_REFS),
                 [[100, 74.6319046, 55.77074432], [79.65373993, 57.15287399, 50.72182846]], "fp32")
    ranking = minrisk.decode(CHECK_HYPS, CHECK_REFS, strategy="aggregate")
    assert_close(ranking.utility, [78.56389618, 63.3719368], "fp32")


# fastchrf leaves the separators U+001C to U+001F in the text, Python's split() does not
RUST_TEXTS = st.lists(texts.map(lambda t: t.translate(dict.fromkeys(range(0x1c, 0x20), " "))),
                      min_size=1, max_size=8)


@given(hyps=RUST_TEXTS, refs=RUST_TEXTS, order=st.integers(1, 7))
def test_pairwise_and_aggregate_equal_fastchrf(hyps, refs, order):
    metric = minrisk.ChrF(order=order)
    ours = scores(metric, hyps, refs)
    theirs = np.array(fastchrf.pairwise_chrf([hyps], [refs], char_order=order))[0]
    assert_close(ours, theirs, "fp32")
    aggregate = minrisk.decode(hyps, refs, metric=metric, strategy="aggregate").utility
    theirs = np.array(fastchrf.aggregate_chrf([hyps], [refs], char_order=order))[0]
    assert_close(aggregate, theirs, "fp32")


def test_real_samples_equal_fastchrf(fastchrf_samples):
    hyps = fastchrf_samples[:100]
    theirs = np.array(fastchrf.aggregate_chrf([hyps], [fastchrf_samples]))[0]
    ours = minrisk.decode(hyps, fastchrf_samples, strategy="aggregate").utility
    assert_close(ours, theirs, "fp32")


@pytest.fixture
def plain(monkeypatch):
    def switch() -> None:
        monkeypatch.setattr("minrisk._core.native.native_core", lambda: None)
    return switch


@given(metric=METRICS, case=cases())
def test_the_plain_twin_has_the_same_numbers(metric, case):
    check_twin(metric, case)


def test_the_plain_twin_decodes(plain):
    expected = minrisk.decode(CHECK_REFS, strategy="aggregate-to-fine", keep=2)
    plain()
    ranking = minrisk.decode(CHECK_REFS, strategy="aggregate-to-fine", keep=2)
    np.testing.assert_array_equal(ranking.order, expected.order)
    assert_close(ranking.utility, expected.utility)


def test_more_distinct_characters_than_fit_a_packed_key():
    """70,000 characters: an n-gram no longer fits into 64 bits and is numbered in steps."""
    letters = [chr(c) for c in range(0x4E00, 0x4E00 + 70_000) if not 0xD800 <= c < 0xE000]
    hyps = ["".join(letters), "".join(letters[::2]), "".join(letters[1:])]
    metric = minrisk.ChrF()
    assert_close(scores(metric, hyps, hyps[1:2]), sacrebleu_scores(metric, hyps, hyps[1:2]))


def test_strings_of_100_000_characters():
    rng = np.random.default_rng(0)
    long = ["".join(rng.choice(list("abcdé 日"), 100_000)) for _ in range(2)]
    metric = minrisk.ChrF()
    assert_close(scores(metric, long, long[:1]), sacrebleu_scores(metric, long, long[:1]))
    one_letter = ["a" * 100_000, "a" * 99_000, "b" * 100_000]
    assert_close(scores(metric, one_letter, one_letter),
                 sacrebleu_scores(metric, one_letter, one_letter))


def test_white_space_is_what_python_splits_at():
    every = [chr(c) for c in range(0x110000)]
    metric = minrisk.ChrF(order=1)
    # a text of one character matches itself, unless that character is white space
    features = metric.features(every)
    own = metric.utility(features, metric.features(["".join(every)]), np.ones(1)) > 0
    spaces = [c for c, found in zip(every, own, strict=True) if not found]
    assert spaces == [c for c in every if c.isspace()]


def test_one_mark_is_split_off_either_edge_of_a_word():
    words = [f"{chr(c)}word" for c in range(33, 127)] + [f"word{chr(c)}" for c in range(33, 127)]
    metric = minrisk.ChrF(order=0, word_order=1)
    assert_close(scores(metric, words, ["word"]), sacrebleu_scores(metric, words, ["word"]))


def test_matches_that_fill_whole_words_of_bits(every_core):
    """200 n-grams of an order in common: 64 of them are a word with all bits set."""
    text = "".join(chr(0x4E00 + i) for i in range(200))
    metric = minrisk.ChrF()
    expected = sacrebleu_scores(metric, [text], [text + "!"])
    for core in every_core:
        _native.set_simd(core)
        assert_close(scores(metric, [text], [text + "!"]), expected)


def test_more_rare_matches_than_sixteen_bits_count():
    """Two long texts share what no other of a hundred has: each of it a list of two."""
    rng = np.random.default_rng(0)
    long = "".join(map(chr, rng.integers(0x4E00, 0x9FA5, 70_000)))
    texts = [long, long + "!", *(str(i) for i in range(98))]
    metric = minrisk.ChrF(order=2)
    assert_close(scores(metric, texts, texts)[:1, 1:2],
                 sacrebleu_scores(metric, texts[:1], texts[1:2]))


@pytest.fixture
def every_core():
    before = _native.simd()
    yield _native.available_simd()
    _native.set_simd(before)


def test_features_of_other_options_are_refused():
    features = minrisk.ChrF().features(["The Cat", "the cat"])
    with pytest.raises(minrisk.InputError, match="same metric"):
        minrisk.ChrF(lowercase=True).scores(features, features)


def test_an_average_needs_a_label_for_every_reference():
    metric = minrisk.ChrF()
    with pytest.raises(minrisk.InputError, match="3 labels"):
        metric.aggregate(metric.features(CHECK_REFS), Groups(np.zeros(2, np.intp), np.ones(2)))


def test_a_group_without_members_shares_nothing(plain):
    groups = Groups(np.array([0, 0, 2]), np.ones(3))

    def found() -> np.ndarray:
        metric = minrisk.ChrF()
        features = metric.features(CHECK_REFS)
        return metric.scores(features, metric.aggregate(features, groups))

    native = found()
    assert np.all(native[:, 1] == 0)
    plain()
    assert_close(found(), native)


def test_lone_surrogates_are_characters_like_others():
    metric = minrisk.ChrF()
    assert scores(metric, ["\ud800a"], ["\ud800a"])[0, 0] == 100
    assert scores(metric, ["\ud800a"], ["\udfffa"]) == scores(metric, ["éa"], ["èa"])
    joined = "\U0001f600"  # two surrogates side by side stay two characters
    assert scores(metric, ["\ud83d" + "\ude00"], [joined])[0, 0] == 0


def test_no_ngrams_at_all_are_refused():
    with pytest.raises(minrisk.InputError, match="order"):
        minrisk.ChrF(order=0)
