"""mbrs and we agree: in every number where nothing is random, in how good choices are elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import minrisk
from mbrs_problems import CLUSTERS, COUNT, logprobs, points, repeated, samples
from minrisk.strategies.groups import kmeans
from tolerance import assert_close

GOLDEN = json.loads((Path(__file__).parent / "mbrs" / "golden.json").read_text(encoding="utf-8"))
CHRF = minrisk.ChrF()
SEEDS = range(5)


@pytest.mark.parametrize("problem", range(COUNT))
def test_utilities_are_those_of_mbrs(problem):
    texts = samples(problem)
    weights = minrisk.weights_from_logprobs(logprobs(problem))
    ours = {"standard": minrisk.decode(texts),
            "weighted": minrisk.decode(texts, weights=weights),
            "aggregate": minrisk.decode(texts, strategy="aggregate")}
    for name, ranking in ours.items():
        assert_close(ranking.utility, GOLDEN[name][problem], "fp32")  # single


@pytest.mark.parametrize("problem", range(COUNT))
def test_model_based_utilities_are_those_of_mbrs(problem):
    texts, values = repeated(problem)
    weights = minrisk.weights_from_logprobs(values, texts)
    ranking = minrisk.decode(texts, weights=weights)
    assert_close(ranking.utility, GOLDEN["model-based"][problem], "fp32")


def test_diverse_pairs_are_those_of_mbrs():
    for problem in range(COUNT):
        texts = samples(problem)
        # mbrs divides likeness by the size less one, and we by the size: its 0.5 is our 1
        ranking = minrisk.decode(texts, strategy="diverse", size=2, diversity=1.0)
        chosen = {texts[i] for i in ranking.order[:2]}
        assert chosen == {texts[i] for i in GOLDEN["diverse"][problem]}


STRATEGIES = {
    "prune": lambda seed: minrisk.Prune(CHRF, alpha=0.9, start=8, seed=seed),
    "low-rank": lambda seed: minrisk.LowRank(CHRF, budget=0.25, seed=seed),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_random_choices_are_as_good_as_those_of_mbrs(name):
    ours, theirs = [], []
    for problem in range(COUNT):
        segment = minrisk.Segment(samples(problem), position=problem)
        utility = minrisk.Standard(CHRF).rank([segment])[0].utility
        lost = (utility.max() - utility) / utility.std()
        chosen = [STRATEGIES[name](seed).rank([segment])[0].best for seed in SEEDS]
        ours.append(lost[chosen].mean())
        theirs.append(lost[GOLDEN[name][problem]].mean())
    error = np.std(np.subtract(ours, theirs), ddof=1) / np.sqrt(COUNT)
    assert np.mean(ours) <= np.mean(theirs) + 3 * error


def test_clusters_are_as_tight_as_those_of_mbrs():
    ours = []
    for problem in range(COUNT):
        given = np.array(points(problem))
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            labels = kmeans(given, np.ones(len(given)), CLUSTERS, 10, rng)
            centroids = np.array([given[labels == g].mean(axis=0) for g in range(CLUSTERS)])
            ours.append(np.square(given - centroids[labels]).sum(axis=1).mean())
    theirs = np.array(GOLDEN["inertia"])
    apart = np.reshape(ours, theirs.shape).mean(axis=1) - theirs.mean(axis=1)
    assert apart.mean() <= 3 * apart.std(ddof=1) / np.sqrt(COUNT)
