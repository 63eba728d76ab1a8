"""Entropy over semantic clusters."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

import minrisk
from minrisk._core.batch import bind
from minrisk._core.segment import Ranking, Segment
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


def test_more_clusters_than_centres_stand_alone():
    samples = [chr(0x4E00 + i) * 3 for i in range(100)]
    found = measured(samples)
    assert found.clusters == 100
    assert_close(found.entropy, log(100))


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
