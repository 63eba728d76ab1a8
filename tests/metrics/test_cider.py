"""CIDEr-D has the numbers of pycocoevalcap, and averages of references are exact."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import FEW, cases, text_lists
from minrisk.metrics import cider
from minrisk.metrics.cider import Cider
from small_metrics import many, scores
from tolerance import assert_close

CORPUS = [["a man rides a horse", "a man on a horse", "a rider on his horse in a field"],
          ["a red bus on the road", "the red bus stops on a road"],
          ["two dogs play", "dogs play with a ball in the grass", "dogs dogs dogs"],
          ["an empty room"]]
OUTPUTS = ["a man rides a brown horse", "a bus a bus on the road", "dogs", "horse"]


@pytest.fixture
def documents(tmp_path):
    lines = [{"references": captions} for captions in CORPUS[:-1]]
    return str(write(tmp_path / "captions.jsonl", *lines, {"samples": CORPUS[-1]}))


def published(outputs, corpus, sigma=6.0):
    scorer = pytest.importorskip("pycocoevalcap.cider.cider_scorer").CiderScorer(sigma=sigma)
    for output, references in zip(outputs, corpus, strict=True):
        scorer += (output, references)
    return scorer.compute_score()


@pytest.mark.parametrize("sigma", [6.0, 1.5])
def test_a_corpus_equals_pycocoevalcap(documents, sigma):
    metric = Cider(documents, sigma=sigma)
    found = minrisk.score(OUTPUTS, CORPUS, metric=metric)
    value, sentences = published(OUTPUTS, CORPUS, sigma)
    assert_close(found.value, value)
    assert_close(found.sentences, sentences)


@settings(FEW, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_pair_equals_pycocoevalcap(tmp_path, data):
    word = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=9).map(" ".join)
    corpus = data.draw(st.lists(st.lists(word, min_size=1, max_size=3), min_size=1, max_size=4))
    outputs = data.draw(st.lists(word, min_size=len(corpus), max_size=len(corpus)))
    documents = write(tmp_path / "d.jsonl", *({"references": own} for own in corpus))
    expected = published(outputs, corpus)[1] if any(any(own) for own in corpus) else 0.0
    found = minrisk.score(outputs, corpus, metric=Cider(str(documents))).sentences
    assert_close(found, np.broadcast_to(expected, found.shape), scale=10)


METRICS = st.builds(Cider, n=st.integers(1, 5), sigma=st.sampled_from([0.5, 6.0]),
                    lowercase=st.booleans(), no_punct=st.booleans())


@FEW
@given(metric=METRICS, case=cases())
def test_an_average_of_captions_is_exact(metric, case):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    exact, average = (strategy(metric).rank([segment])[0]
                      for strategy in (minrisk.Standard, minrisk.Aggregate))
    assert_close(average.utility, exact.utility, scale=10)


def test_pairs_in_blocks_are_the_same(monkeypatch):
    texts = many(40)
    expected = scores(Cider(), texts, texts)
    monkeypatch.setattr(cider, "_MAX_MATCHES_PER_BLOCK", 7)
    assert_close(scores(Cider(), texts, texts), expected)


@given(hyps=text_lists, refs=text_lists)
def test_the_expectation_without_pairs_equals_the_matrix(hyps, refs):
    metric = Cider(lowercase=False, no_punct=False)
    mass = np.arange(1.0, len(refs) + 1)
    found = metric.utility(metric.features(hyps), metric.features(refs), mass)
    assert_close(found, scores(metric, hyps, refs) @ mass, scale=10 * mass.sum())


def test_ngrams_of_all_documents_weigh_nothing(tmp_path):
    documents = write(tmp_path / "d.jsonl", {"samples": ["a bus"]}, {"samples": ["the bus"]})
    assert scores(Cider(str(documents)), ["bus"], ["bus"]) == 0
    assert scores(Cider(), ["bus"], ["bus"]) == 2.5  # one of four orders


@pytest.mark.parametrize(("content", "message"), [
    (None, "captions"),
    ("a plain caption\n", "captions:1"),
    ('{"samples": ["a"]}\n\n{"references": [1]}\n', "captions:3"),
    ("\n", "no document"),
    ('["a"]\n', "captions:1")])
def test_documents_that_cannot_be_read_are_told(tmp_path, content, message):
    path = tmp_path / "captions"
    if content is not None:
        path.write_text(content)
    with pytest.raises(minrisk.InputError, match=message):
        Cider(str(path)).prepare()


def test_the_samples_that_are_decoded_can_be_the_documents(tmp_path):
    samples = write(tmp_path / "samples.jsonl", *({"samples": own} for own in CORPUS))
    result = run("decode", samples, "--metric", "cider", "--metric.documents", samples)
    metric = Cider(str(samples))
    assert [json.loads(line)["text"] for line in result.out.splitlines()] == [
        minrisk.decode(own, metric=metric).text for own in CORPUS]
