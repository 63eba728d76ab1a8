"""Documents by optimal transport: matchings are optimal, sentences score as the metric does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="needs scipy, whose optima ours are")

from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog

import minrisk
from commands import run, write
from generators import FEW
from minrisk.metrics.edit import Edit
from minrisk.metrics.wrappers import documents
from minrisk.metrics.wrappers.documents import Documents, sentences
from minrisk.metrics.wrappers.transport import exact_transport, sinkhorn_transport
from project import TESTS
from small_metrics import Common, scores
from tolerance import assert_close

CHRF = minrisk.ChrF()
STORY = "The cat sat down. It slept all day! Was it tired?"
TURNED = "It slept all day! The cat sat down. Was it tired?"


def by_linear_programming(matrix, ours, theirs):
    """The optimum of the plan's linear program."""
    n, m = matrix.shape
    margins = sparse.vstack([sparse.kron(sparse.eye(n), np.ones((1, m))),
                             sparse.kron(np.ones((1, n)), sparse.eye(m))])
    wanted = np.concatenate([np.array(ours) / sum(ours), np.array(theirs) / sum(theirs)])
    return -linprog(-matrix.ravel(), A_eq=margins, b_eq=wanted, method="highs").fun


@FEW
@given(data=st.data())
def test_exact_transport_is_the_optimum_of_the_linear_program(data):
    n, m = (data.draw(st.integers(1, 6)) for _ in "nm")
    score = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(-100, 100))
    matrix = np.array(data.draw(st.lists(score, min_size=n * m, max_size=n * m))).reshape(n, m)
    ours, theirs = (data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
                    for size in (n, m))
    assert_close(exact_transport(matrix, ours, theirs),
                 by_linear_programming(matrix, ours, theirs), ulps=1e6, scale=100)


@pytest.mark.parametrize("size", [1, 2, 7, 12])
def test_documents_of_as_many_sentences_are_assigned(size):
    matrix = np.random.default_rng(size).random((size, size))
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    assert_close(exact_transport(matrix, [1] * size, [1] * size), matrix[rows, columns].mean())


@pytest.mark.parametrize(("n", "m"), [(2, 3), (7, 5), (13, 20)])
def test_sinkhorn_is_near_the_optimum(n, m):
    rng = np.random.default_rng(0)
    matrices = 100 * rng.random((5, n, m))
    ours, theirs = (rng.integers(1, 9, (5, size)) for size in (n, m))
    exact = [exact_transport(*pair) for pair in zip(
        matrices, ours.tolist(), theirs.tolist(), strict=True)]
    shares = [own / own.sum(axis=1, keepdims=True) for own in (ours, theirs)]
    found = sinkhorn_transport(matrices, *shares, 0.01)
    np.testing.assert_allclose(found, exact, atol=0.5)
    assert np.all(found <= np.array(exact) + 1e-3)
    rough = sinkhorn_transport(matrices, *shares, 0.1)
    assert np.all(rough < found)


def test_a_pair_is_iterated_the_same_beside_any_other():
    matrices = np.random.default_rng(1).random((4, 5, 6))
    shares = np.full((4, 5), 0.2), np.full((4, 6), 1 / 6)
    together = sinkhorn_transport(matrices, *shares, 0.05)
    alone = [sinkhorn_transport(matrices[[k]], shares[0][[k]], shares[1][[k]], 0.05)[0]
             for k in range(4)]
    assert_close(together, alone)


def test_equal_scores_are_no_matter_how_they_are_matched():
    assert_close(sinkhorn_transport(np.full((1, 3, 2), 7.0), np.full((1, 3), 1 / 3),
                                    np.full((1, 2), 0.5), 0.01), [7.0])


def test_single_sentences_score_as_the_metric_does():
    texts = ["The cat sat.", "a cat", "", "Dogs run"]
    assert_close(scores(Documents(CHRF), texts, texts), scores(CHRF, texts, texts))


def test_sentences_may_change_places():
    assert_close(scores(Documents(CHRF), [STORY], [TURNED]), [[100.0]])
    assert scores(CHRF, [STORY], [TURNED]) < 95


def test_the_score_of_a_pair_is_that_of_its_linear_program():
    hyps = [STORY, "The cat slept. It was tired."]
    refs = [TURNED, "The cat sat. It slept. All day! Tired?"]
    for weights in ("uniform", "length"):
        found = scores(Documents(CHRF, weights=weights), hyps, refs)
        for i, hyp in enumerate(map(sentences, hyps)):
            for j, ref in enumerate(map(sentences, refs)):
                sizes = [[len(s) if weights == "length" else 1 for s in side]
                         for side in (hyp, ref)]
                expected = by_linear_programming(scores(CHRF, hyp, ref), *sizes)
                assert_close(found[i, j], expected, ulps=1e6)


def test_long_documents_are_nearly_exact():
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    hyps, refs = (". ".join(words[i % 10] * (i % 3 + 1) for i in range(start, start + 14)) + "."
                  for start in (0, 3))
    long = scores(Documents(CHRF, exact=13), [hyps], [refs])
    exact = scores(Documents(CHRF), [hyps], [refs])
    assert 0 < (exact - long)[0, 0] < 0.5


def test_documents_in_blocks_score_the_same(monkeypatch):
    texts = [STORY, TURNED, "One. Two.", "Three. The cat sat down."] * 3
    expected = scores(Documents(CHRF), texts, texts[:5])
    monkeypatch.setattr(documents, "_MAX_SCORES_PER_BLOCK", 20)
    assert_close(scores(Documents(CHRF), texts, texts[:5]), expected)


@pytest.mark.parametrize(("text", "found"), [
    ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
    ("v1.5 costs $3.50.Not here", ["v1.5 costs $3.50.Not here"]),
    ("He said \"Stop!\" (Really.) Then no.", ['He said "Stop!"', "(Really.)", "Then no."]),
    ("今日は晴れ。「行こう。」と言った！", ["今日は晴れ。", "「行こう。」", "と言った！"]),
    ("a title\n\nA text\r\nand more", ["a title", "A text", "and more"]),
    ("", [""]), (" \n ", [""])])
def test_sentences_end_where_the_page_says(text, found):
    assert sentences(text) == found


def test_lines_are_sentences_if_they_are_split_already():
    metric = Documents(CHRF, split="line")
    turned = "Dr. No sat.\nIt slept.", "It slept.\nDr. No sat."
    assert_close(scores(metric, turned[:1], turned[1:]), [[100.0]])
    assert sentences(turned[0], lines=True) == ["Dr. No sat.", "It slept."]


def test_an_error_stays_one_and_the_source_is_read_whole():
    assert Documents(minrisk.Ter()).is_error
    metric = Documents(Common())
    assert metric.needs_source
    ranking = minrisk.decode(["a. b.", "c."], source="a. c.", metric=metric)
    assert_close(ranking.utility, [0.25, 0.5])


def test_documents_are_read_by_comet_sentence_by_sentence():
    pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")
    folder = TESTS / "metrics" / "comet"
    options = {"model": str(folder / "checkpoints" / "xlmr_mix_sparsemax"), "device": "cpu",
               "encoder": str(folder / "encoders" / "xlm-roberta")}
    comet = minrisk.make_metric("comet", **options)
    metric = minrisk.make_metric("documents:comet",
                                 **{f"comet__{name}": value for name, value in options.items()})
    assert metric == Documents(comet)
    source = "Le chat. Il dort."
    found = minrisk.decode(["a cat. it sleeps."], ["it sleeps. a cat."], source, metric=metric)
    parts = ["a cat.", "it sleeps."]
    matrix = comet.scores(*(comet.features(texts) for texts in (parts, parts, [source])))
    best = max(matrix[0, 0] + matrix[1, 1], matrix[0, 1] + matrix[1, 0]) / 2
    assert_close(found.utility, [best], "fp32")


def test_the_command_line_compares_documents(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": [STORY, TURNED, "It rained. All day."]})
    result = run("decode", samples, "--metric", "documents:edit", "--metric.edit.unit", "word",
                 "--metric.weights", "length", "--utilities")
    expected = minrisk.decode([STORY, TURNED, "It rained. All day."],
                              metric=Documents(Edit("word"), weights="length"))
    assert_close(result.records[0]["utilities"], expected.utility)
    assert "metric:documents:edit|metric.edit.unit:word|" in result.err
