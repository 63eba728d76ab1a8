"""Structure-conditional MBR: cutoffs, clusters and products, as their paper defines them."""

from __future__ import annotations

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.metrics.wrappers.combined import Combined, Cutoff
from small_metrics import many, scores
from tolerance import assert_close

CHRF = minrisk.ChrF()
YES_NO = ["Yes, of course.", "No.", "No!", "Yes, of course!", "Yes.", "No, sorry."]
VOTE = minrisk.ExactMatch("Yes|No")


def plain_cutoff(matrix, threshold, below):
    """The paper's: scores under the threshold are a constant, and self is left out."""
    count = len(matrix)
    utility = []
    for row in range(count):
        others = [matrix[row, j] for j in range(count) if j != row]
        utility.append(sum(s if s >= threshold else below for s in others) / (count - 1))
    return utility


@pytest.mark.parametrize(("threshold", "below"), [(30.0, 0.0), (60.0, 0.0), (40.0, -5.0)])
def test_a_cutoff_is_the_papers(threshold, below):
    texts = list(dict.fromkeys(many(20)))
    metric = Cutoff(CHRF, threshold, below)
    found = minrisk.Standard(metric, leave_self_out=True).rank([minrisk.Segment(texts)])[0]
    assert_close(found.utility, plain_cutoff(scores(CHRF, texts, texts), threshold, below),
                 scale=100)


def test_a_cutoff_chooses_one_of_a_kind_and_no_compromise():
    samples = ["aaaa bbbb", "aaaa cccc", "aaaa dddd", "bbbb", "bbbb", "cccc dddd"]
    assert minrisk.decode(samples).text == "aaaa bbbb"
    assert minrisk.decode(samples, metric=Cutoff(CHRF, 90)).text == "bbbb"


@pytest.mark.parametrize(("metric", "options", "message"), [
    ("cutoff:ter", {"threshold": -50.0}, "below="),
    ("cutoff:chrf", {"threshold": 10.0, "below": 20.0}, "threshold"),
    ("cutoff:chrf", {"threshold": -1.0}, "threshold, -1"),
    ("cutoff:chrf", {}, "threshold=")])
def test_a_cutoff_that_makes_no_sense_is_told(metric, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.make_metric(metric, **options)


def test_a_cutoff_of_an_error_has_a_worst_score():
    metric = minrisk.make_metric("cutoff:wer", threshold=-30.0, below=-100.0)
    found = scores(metric, ["a b c d"], ["a b c d", "a b c", "x"])
    assert_close(found, [[0, -100, -100]])


def plain_clusters(texts, answers, metric):
    """The members of the largest class of answers by their utilities among themselves."""
    largest = max(dict.fromkeys(answers), key=answers.count)
    rows = [i for i, answer in enumerate(answers) if answer == largest]
    inside = [texts[i] for i in rows]
    utility = np.full(len(texts), np.nan)
    utility[rows] = scores(metric, inside, inside).mean(axis=1)
    return utility


def test_mbr_inside_the_largest_cluster_of_answers():
    found = minrisk.decode(YES_NO, strategy=minrisk.Cluster(CHRF, VOTE))
    answers = [VOTE.answer(text) for text in YES_NO]
    assert_close(found.utility, plain_clusters(YES_NO, answers, CHRF))
    assert found.text.startswith("Yes")
    assert sorted(found.order[:3].tolist()) == [0, 3, 4]


def test_the_weight_of_a_cluster_is_that_of_its_samples():
    for counts in ([1, 1, 2, 1, 1, 1], None):
        weights = None if counts else [1, 1, 2, 1, 1, 1]
        found = minrisk.decode(YES_NO, counts=counts, weights=weights,
                               strategy=minrisk.Cluster(CHRF, VOTE))
        assert found.text.startswith("No")
    repeated = [*YES_NO, "No!"]
    other = minrisk.decode(repeated, strategy=minrisk.Cluster(CHRF, VOTE))
    assert_close(found.utility, other.utility[:6])


def test_equal_samples_share_their_cluster():
    samples = ["No.", "Yes.", "No.", "Yes.", "Yes."]
    found = minrisk.decode(samples, strategy=minrisk.Cluster(CHRF, CHRF, 0.9))
    np.testing.assert_array_equal(np.isnan(found.utility), [True, False, True, False, False])


def test_separate_references_all_judge_the_cluster():
    found = minrisk.decode(YES_NO, ["Yes, of course!", "Of course not"],
                           strategy=minrisk.Cluster(CHRF, VOTE))
    expected = minrisk.decode(YES_NO, ["Yes, of course!", "Of course not"])
    kept = ~np.isnan(found.utility)
    assert kept.tolist() == [True, False, False, True, True, False]
    assert_close(found.utility[kept], expected.utility[kept])


def test_outcomes_vote_and_chrf_chooses_among_the_winners():
    programs = ["print(2+2)", "print(2 + 2)", "print( 2 + 2 )", "print(5)", "x"]
    found = minrisk.decode(programs, outcomes=["4", "4", "4", "5", None],
                           strategy=minrisk.Cluster(CHRF, "outcomes"))
    assert found.text == minrisk.decode(programs[:3]).text
    assert np.isnan(found.utility[3:]).all()


@pytest.mark.parametrize("similarity", ["outcomes", minrisk.ExactMatch(r"\d")])
def test_samples_without_an_answer_are_no_cluster_that_wins(similarity):
    texts, printed = ["a", "b", "c", "d 4", "e 5"], [None, "", " ", "4", "5"]
    found = minrisk.decode(texts, outcomes=printed, strategy=minrisk.Cluster(CHRF, similarity))
    assert found.text == "d 4"
    nothing = minrisk.decode(texts[:3], outcomes=printed[:3],
                             strategy=minrisk.Cluster(CHRF, "outcomes"))
    assert nothing.order.size == 3


def test_the_command_line_clusters(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": YES_NO})
    result = run("decode", samples, "--strategy", "cluster", "--similarity", "exact-match",
                 "--similarity.pattern", "Yes|No", "--utilities")
    expected = minrisk.decode(YES_NO, strategy=minrisk.Cluster(CHRF, VOTE))
    assert result.records[0]["text"] == expected.text
    assert "|similarity:exact-match|similarity.pattern:Yes|No|" in result.err


def test_a_product_is_the_product():
    texts = many(8)
    other = minrisk.Edit()
    found = scores(Combined((CHRF, other), by="product"), texts, texts)
    assert_close(found, scores(CHRF, texts, texts) * scores(other, texts, texts), scale=100)


def test_a_product_with_a_cosine_is_the_papers():
    """The utility times (1 + cosine) / 2, self left out."""
    texts = YES_NO
    embedding = minrisk.Embedding()
    cosine = scores(embedding, texts, texts)
    product = scores(CHRF, texts, texts) * (cosine + 1) / 2
    expected = (product.sum(axis=1) - product.diagonal()) / (len(texts) - 1)
    metric = minrisk.make_metric("chrf+embedding", by="product", embedding__unit=True)
    found = minrisk.Standard(metric, leave_self_out=True).rank([minrisk.Segment(texts)])[0]
    assert_close(found.utility, expected, "fp32", scale=100)


def test_a_product_has_neither_weights_nor_averages():
    assert Combined((CHRF, VOTE), by="product").abilities.value == 0
    with pytest.raises(minrisk.InputError, match="weights"):
        minrisk.make_metric("chrf*0.5+edit", by="product")


def test_a_unit_cosine_averages_exactly():
    from minrisk.testing import Case, check_metric

    case = Case(["a cat", "dogs"], ["the cat", "a dog", "rain"], [0, 1, 1], [1, 2, 3])
    check_metric(minrisk.Embedding(unit=True), [case], rtol=1e-5)
    texts = minrisk.Embedding(unit=True).features(["a cat", "Rainfall."])
    assert_close(minrisk.Embedding(unit=True).scores(texts, texts),
                 (1 + minrisk.Embedding().scores(texts, texts)) / 2)
