"""TER has sacreBLEU's numbers, on any text and for every option."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("sacrebleu", reason="needs sacrebleu, whose numbers ours are")

from sacrebleu.metrics.ter import TER

import minrisk
from generators import text_lists
from minrisk.metrics import ter
from minrisk.metrics.ter import Ter
from small_metrics import scores
from tolerance import assert_close

METRICS = st.builds(Ter, normalized=st.booleans(), no_punct=st.booleans(),
                    asian_support=st.booleans(), case_sensitive=st.booleans())
# few words, so that blocks of them move
MOVED = st.lists(st.lists(st.sampled_from(list("abcdefg")), max_size=40).map(" ".join),
                 min_size=1, max_size=3)
MARKED = st.lists(st.text(alphabet="aB1 .,-'s&quot;()\n日本、。！ひらがなカナ㈱⺀", max_size=20),
                  min_size=1, max_size=4)
# what sacreBLEU's second look at a reference splits: 's before what the first look turns into a
# plain space, or takes away
POSSESSIVE = st.lists(st.lists(
    st.sampled_from(["a", "B", "it", "'s", "s", "'", "1", "-", ".", ",", "&amp;", "&quot;", "\n-",
                     " ", "\n", "\t", "\x85", "\xa0", "\u2003", "\u2009", "\u202f", "\u3000"]),
    max_size=14).map("".join), min_size=1, max_size=3)


def sacrebleu_scores(metric: Ter, hyps: list[str], refs: list[str]) -> np.ndarray:
    theirs = TER(normalized=metric.normalized, no_punct=metric.no_punct,
                 asian_support=metric.asian_support, case_sensitive=metric.case_sensitive)
    return -np.array([[theirs.sentence_score(h, [r]).score for r in refs] for h in hyps])


@given(metric=METRICS, hyps=st.one_of(text_lists, MARKED), refs=st.one_of(text_lists, MARKED))
@example(Ter(), ["", "a"], ["", "a b"])
@example(Ter(normalized=True), ["dogs' and cat's 1-2, 3.5 &lt;b&gt;\n-x"], ["dogs cat 's"])
@example(Ter(normalized=True, no_punct=True, asian_support=True), ["ひらがな"], ["カタ、カナ。"])
def test_every_pair_equals_sacrebleu(metric, hyps, refs):
    assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs))


@pytest.fixture(params=["native", "plain"])
def either_core(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr("minrisk._core.native.native_core", lambda: None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metric=METRICS, hyps=POSSESSIVE, refs=POSSESSIVE)
@example(Ter(normalized=True), ["p q r s t"], ["John's\xa0book", "John's\u2009book", "John's book"])
@example(Ter(normalized=True, no_punct=True), ["It 's", "it's."], ["it's.", "(it's)", "it 's."])
def test_references_are_tokenized_twice_as_sacrebleu_does(either_core, metric, hyps, refs):
    assert_close(scores(metric, hyps, refs), sacrebleu_scores(metric, hyps, refs))
    theirs = TER(normalized=metric.normalized, no_punct=metric.no_punct,
                 asian_support=metric.asian_support, case_sensitive=metric.case_sensitive)
    expected = [theirs.sentence_score(hyp, refs).score for hyp in hyps]
    ours = [metric.corpus(row) for row in metric.statistics(hyps, [refs] * len(hyps))]
    assert_close(ours, np.negative(expected))


@given(hyps=MOVED, refs=MOVED)
def test_shifts_equal_sacrebleu(hyps, refs):
    assert_close(scores(Ter(), hyps, refs), sacrebleu_scores(Ter(), hyps, refs))


@pytest.mark.parametrize(("hyp", "ref"), [(3, 400), (400, 3), (70, 80), (1, 120)])
def test_long_texts_of_unequal_length_equal_sacrebleu(hyp, ref):
    rng = np.random.default_rng(hyp)
    one, other = (" ".join(rng.choice(list("abcdefghijkl"), size)) for size in (hyp, ref))
    assert_close(scores(Ter(), [one], [other]), sacrebleu_scores(Ter(), [one], [other]))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process as Linux does")
def test_memory_grows_with_the_length_of_the_texts_and_not_with_its_square():
    """20,000 words on each side: a full matrix of costs and operations has 2 GB."""
    code = textwrap.dedent("""
        import random, resource
        from pathlib import Path
        from minrisk.metrics.ter import Ter
        draw = random.Random(0)
        words = [str(draw.randrange(5000)) for _ in range(20_000)]
        moved = words[3:9] + words[:3] + words[9:]
        features = Ter().features(["a b c", " ".join(words), " ".join(moved), " ".join(words[:-1])])
        Ter().scores(features[:1], features[:1])  # so that all is loaded
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        print(Ter().scores(features[1:2], features).tolist())
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=os.environ | {"MINRISK_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    edits, lengths = np.array([20_000, 0, 1, 1]), np.array([3, 20_000, 20_000, 19_999])
    assert_close(json.loads(done.stdout), [-100 * edits / lengths])


def test_real_samples_equal_sacrebleu(fastchrf_samples):
    hyps, refs = fastchrf_samples[:6], fastchrf_samples[500:510]
    assert_close(scores(Ter(), hyps, refs), sacrebleu_scores(Ter(), hyps, refs))


def test_without_the_native_core_sacrebleu_itself_counts(monkeypatch):
    hyps, refs = ["the cat sat on a mat", ""], ["on the mat sat a cat", "mat", ""]
    ours = scores(Ter(), hyps, refs)
    monkeypatch.setattr("minrisk._core.native.native_core", lambda: None)
    np.testing.assert_array_equal(scores(Ter(), hyps, refs), ours)
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics.lib_ter", None)
    with pytest.raises(minrisk.MissingExtra, match=r"pip install 'minrisk\[bleu\]'"):
        scores(Ter(), hyps, refs)


def test_numbers_of_words_do_not_depend_on_the_threads(fastchrf_samples):
    words = [text.split() for text in fastchrf_samples[:30]]
    alone = ter._edits(words, words)
    minrisk.set_threads(2)
    try:
        np.testing.assert_array_equal(ter._edits(words, words), alone)
    finally:
        minrisk.set_threads(None)
