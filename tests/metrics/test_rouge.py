"""ROUGE has the numbers of rouge-score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minrisk
from generators import text_lists
from minrisk.metrics.ngram.rouge import Rouge, RougeL
from small_metrics import scores
from tolerance import assert_close

ROUGE = st.builds(Rouge, n=st.integers(1, 4), stemmer=st.booleans())
ROUGE_L = st.builds(RougeL, stemmer=st.booleans())
ENGLISH = st.lists(st.lists(st.sampled_from(["runs", "running", "ponies", "the", "The", "cat's",
                                             "a-b", "Straße", "42"]), max_size=30).map(" ".join),
                   min_size=1, max_size=4)


def package_scores(metric: Rouge | RougeL, hyps: list[str], refs: list[str]) -> np.ndarray:
    from rouge_score.rouge_scorer import RougeScorer  # which takes a second to import

    kind = f"rouge{metric.n}" if isinstance(metric, Rouge) else "rougeL"
    theirs = RougeScorer([kind], use_stemmer=metric.stemmer)
    return np.array([[theirs.score(r, h)[kind].fmeasure for r in refs] for h in hyps])


@given(metric=st.one_of(ROUGE, ROUGE_L), hyps=st.one_of(text_lists, ENGLISH),
       refs=st.one_of(text_lists, ENGLISH))
@example(Rouge(2), ["", "one", "one two"], ["", "one two one two", "Ω"])
@example(RougeL(), ["", "日本"], ["", "a"])
@example(RougeL(stemmer=True), ["dies skies"], ["die sky"])
def test_every_pair_equals_rouge_score(metric, hyps, refs):
    assert_close(scores(metric, hyps, refs), package_scores(metric, hyps, refs), scale=1)


@pytest.mark.parametrize("metric", [Rouge(2), RougeL()], ids=lambda m: m.name)
def test_very_long_texts_equal_rouge_score(metric):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["the", "cat", "sat", "mat", "on"], size)) for size in (700, 900)]
    assert_close(scores(metric, texts, texts), package_scores(metric, texts, texts))


def test_no_words_in_an_n_gram_are_refused():
    with pytest.raises(minrisk.InputError, match=r"n must be .* 0"):
        Rouge(0)
