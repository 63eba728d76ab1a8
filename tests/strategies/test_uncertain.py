"""Entropy over semantic clusters."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from minrisk._core.batch import bind
from minrisk._core.segment import Ranking, Segment
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.strategies.uncertain import clusters
from tolerance import assert_close

CATS = ["the cat sat", "the cat sat.", "The cat sat", "no dogs here", "no dogs here!", "42"]


def measured(samples, strategy="standard", metric="chrf", **options):
    made = minrisk.make_strategy(strategy, metric, **options)
    return minrisk.decode(samples, strategy=minrisk.Uncertain(made)).uncertainty


def greedy_labels(segment: Segment, ranking: Ranking, threshold: float) -> dict[str, str]:
    """The plain way: each text with the centre of the cluster that it joins."""
    chrf, centres, found = minrisk.ChrF(), [], {}
    for text in dict.fromkeys(segment.hypotheses[i] for i in ranking.order):
        scores = [chrf.scores(chrf.features([text]), chrf.features([c]))[0, 0] for c in centres]
        joined = [c for c, s in zip(centres, scores, strict=True) if s >= threshold * 100]
        if not joined:
            centres.append(text)
        found[text] = (joined or [text])[0]
    return found


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.0])
def test_clusters_are_those_of_a_loop_over_ranks(threshold):
    segment = Segment(CATS + CATS[:2])
    (pool,) = bind(minrisk.ChrF(), [segment])
    ranking = minrisk.Standard("chrf").rank([segment])[0]
    found = clusters(ranking, pool, threshold)
    texts = [segment.hypotheses[row] for row in found.rows]
    expected = greedy_labels(segment, ranking, threshold)
    centre_of = {label: texts[list(found.labels).index(label)] for label in set(found.labels)}
    assert {t: centre_of[n] for t, n in zip(texts, found.labels, strict=True)} == expected
    assert_close(found.mass.sum(), 1.0)


def test_equal_samples_leave_no_uncertainty():
    found = measured(["a cat"] * 5)
    assert (found.entropy, found.largest, found.clusters) == (0.0, 1.0, 1)


def test_answers_that_are_equal_or_not_have_the_entropy_of_their_counts():
    found = measured(["a", "b", "a", "c"], metric="exact-match")
    assert_close(found.entropy, 0.5 * log(2) + 0.5 * log(4))
    assert_close(found.utility, 0.375)  # the chance that two samples are equal


def test_counts_are_repetitions():
    counted = minrisk.decode(CATS[:4], counts=[3, 1, 1, 2],
                             strategy=minrisk.Uncertain(minrisk.Standard("chrf"))).uncertainty
    repeated = measured([CATS[0]] * 3 + [CATS[1], CATS[2]] + [CATS[3]] * 2)
    assert_close(counted.entropy, repeated.entropy)
    assert_close(counted.largest, repeated.largest)
    assert_close(counted.utility, repeated.utility)


@pytest.mark.parametrize("loads_model", [False, True])
def test_more_clusters_than_are_compared_stand_alone(loads_model):
    samples = [chr(0x4E00 + i) * 3 for i in range(100)]
    found = measured(samples, metric=Costly() if loads_model else "chrf")
    assert found.clusters == 100
    assert_close(found.entropy, log(100))


@dataclass(frozen=True)
class Costly(minrisk.ChrF):
    loads_model: ClassVar[bool] = True


def far_more_than_are_compared_together():
    """Pairs of texts that agree, far from each other in the ranking."""
    return [chr(0x4E00 + i % 150) * (9 + i // 150) for i in range(300)]


def test_any_number_of_texts_is_compared():
    found = measured(far_more_than_are_compared_together())
    assert found.clusters == 150
    assert_close(found.entropy, log(150))


def test_models_are_spared_comparisons():
    samples = far_more_than_are_compared_together()
    strategy = minrisk.Uncertain(minrisk.Standard(Costly()))
    ranking = minrisk.decode(samples, strategy=strategy)
    assert ranking.pairs <= 300 * 300 + 68 * 300
    assert ranking.uncertainty.clusters >= 150


@pytest.mark.parametrize("metric", ["exact-match:(\\d+)", "json-match"])
def test_answers_are_counted_however_many_texts_there_are(metric):
    samples = [f'{{"a":{" " * (i // 100)}{i % 100}}}' for i in range(300)]
    found = measured(samples, metric=metric)
    assert (found.clusters, found.unanswered) == (100, 0)
    assert_close(found.entropy, log(100))
    assert_close(found.largest, 0.01)


@pytest.mark.parametrize("counts", [None, [1, 3, 1, 1]])
def test_a_sample_without_an_answer_is_dissent(counts):
    """As if each of them had an answer of its own, but for the number of clusters."""
    samples = ["it is 3", "no idea", "I do not know", "3!"]
    plain = samples if counts is None else np.repeat(samples, counts).tolist()
    own = [text if "3" in text else f"it is {9 + i}" for i, text in enumerate(plain)]
    metric = ExactMatch(r"\d+")
    found = minrisk.decode(samples, counts=counts,
                           strategy=minrisk.Uncertain(minrisk.Standard(metric))).uncertainty
    expected = measured(own, metric=metric)
    assert_close([found.entropy, found.largest], [expected.entropy, expected.largest])
    assert found.clusters == 1
    assert_close(found.unanswered, (len(plain) - 2) / len(plain))


def test_without_any_answer_there_is_no_cluster():
    found = measured(["no idea", "what?", "what?", ""], metric="json-match")
    assert (found.largest, found.clusters, found.unanswered) == (0, 0, 1)
    assert_close(found.entropy, log(4))


@pytest.mark.parametrize("metric", [
    "json-match", minrisk.JsonMatch(by="field"), "symmetric:json-match", "cached:json-match",
    minrisk.Cutoff("json-match", threshold=0.5)], ids=str)
def test_texts_without_an_answer_agree_with_no_other(metric):
    found = measured(['{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', "x", "y"], metric=metric)
    assert_close(found.largest, 0.5)
    assert_close(found.entropy, 0.5 * log(2) + 0.5 * log(4))


def test_samples_that_are_no_hypotheses_are_dissent():
    segment = minrisk.Segment(["a", "a", "b", "c"]).keep(np.array([0, 1]))
    [ranking] = minrisk.Uncertain(minrisk.Standard("exact-match")).rank([segment])
    assert_close(ranking.uncertainty.largest, 0.5)
    assert_close(ranking.uncertainty.entropy, 0.5 * log(2) + 0.5 * log(4))


def test_cosines_are_compared_by_the_sine_of_the_angle():
    """0.6 of the score against itself would be an angle of 53 degrees, where nothing is common."""
    sines = np.array([0.0, 0.3, 0.39, 0.41, 1.0])
    cosines = np.sqrt(1 - sines**2)[:, None]
    for unit in (False, True):
        metric = minrisk.Embedding(unit=unit)
        found = metric.agreement((1 + cosines) / 2 if unit else cosines, np.ones(1))
        assert_close(found.ravel(), 1 - sines, scale=1)
    assert metric.agreement(np.zeros((1, 1)), np.ones(1)) == 0  # opposite
    assert_close(minrisk.BertScore().agreement(cosines, np.ones(1)).ravel(), 1 - sines, scale=1)


def test_weights_may_be_zero_where_utilities_are_left_out():
    weights = np.zeros(200)
    weights[3] = 1
    strategy = minrisk.make_strategy("aggregate-to-fine", "chrf", keep=1)
    for seed in range(4):  # of the references, among which the one with weight may be by luck
        found = minrisk.decode([f"{i} cats" for i in range(200)], weights=weights,
                               strategy=minrisk.Uncertain(strategy, seed=seed)).uncertainty
        assert (found.entropy, found.largest) == (0, 1)


@pytest.mark.parametrize(("strategy", "options"), [
    ("aggregate-to-fine", {"keep": 1}), ("aggregate", {}), ("n-by-s", {"subset": 2})])
def test_strategies_that_leave_utilities_out_are_measured_too(strategy, options):
    found = measured(CATS, strategy, **options)
    assert np.isfinite([found.entropy, found.largest, found.utility]).all()


def test_errors_cluster_like_scores():
    found = measured(["a b c d", "a b c d e", "x y z", "x y z"], metric="ter")
    assert found.clusters == 2
    assert_close(found.largest, 0.5)


def test_separate_references_do_not_count_as_samples():
    ranking = minrisk.decode(["a cat", "a cat", "dogs"], ["a cat"],
                             strategy=minrisk.Uncertain(minrisk.Standard("chrf")))
    assert_close(ranking.uncertainty.largest, 2 / 3)


def test_the_choice_is_the_strategys_own():
    plain = minrisk.decode(CATS)
    found = minrisk.decode(CATS, strategy=minrisk.Uncertain(minrisk.Standard("chrf")))
    assert found.order.tolist() == plain.order.tolist()
    assert found.pairs > plain.pairs
