"""Strategies that choose which pairs to evaluate: their limits, weights, budgets and sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minrisk
from generators import cases, text_lists
from minrisk._core.strategy import resampled
from minrisk.strategies import low_rank
from minrisk.strategies.groups import kmeans
from minrisk.strategies.race import Race
from small_metrics import Counting, many
from tolerance import assert_close

CHRF = minrisk.ChrF()
SEEDS = st.integers(0, 5)


def segment_of(case) -> minrisk.Segment:
    return minrisk.Segment(case.hyps, case.refs, "a source", case.weights)


def same(one: minrisk.Ranking, other: minrisk.Ranking) -> None:
    assert_close(one.utility, other.utility, scale=100)  # of chrF; lengths are less
    np.testing.assert_array_equal(one.order, other.order)


EXACT = {
    "pruning that is never sure": lambda refs, seed: minrisk.Prune(CHRF, 1.0, 1, seed=seed),
    "a budget of all pairs": lambda refs, seed: minrisk.Adaptive(CHRF, 1.0, seed=seed),
    "nothing to complete": lambda refs, seed: minrisk.LowRank(CHRF, 1.0, seed=seed),
    "a set of one": lambda refs, seed: minrisk.Diverse(CHRF, 1),
    "a set of the best": lambda refs, seed: minrisk.Diverse(CHRF, 1, diversity=0),
    "one medoid": lambda refs, seed: minrisk.Medoids(CHRF, 1),
}


@pytest.mark.parametrize("limit", EXACT)
@given(case=cases(), seed=SEEDS)
def test_at_its_limit_a_strategy_is_standard(limit, case, seed):
    if "pruning" in limit:  # which does not look again at the only one that is left
        assume(len(set(case.hyps)) > 1)
    segment = segment_of(case)
    [ranking] = EXACT[limit](len(case.refs), seed).rank([segment])
    [exact] = minrisk.Standard(CHRF).rank([segment])
    same(ranking, exact)
    every = len(set(case.hyps)) * len(set(case.refs))  # also against references without weight
    assert ranking.pairs <= every + 2 * len(case.hyps)  # a diverse set looks at itself


@given(case=cases(), seed=SEEDS)
def test_as_many_centroids_as_references_is_standard(case, seed):
    metric, segment = Counting(), segment_of(case)
    [ranking] = minrisk.Centroid(metric, len(case.refs), seed=seed).rank([segment])
    [exact] = minrisk.Standard(metric).rank([segment])
    same(ranking, exact)


@given(case=cases(), seed=SEEDS)
def test_one_centroid_is_the_aggregate(case, seed):
    [ranking] = minrisk.Centroid(Counting(), 1, seed=seed).rank([segment_of(case)])
    [average] = minrisk.Aggregate(Counting()).rank([segment_of(case)])
    same(ranking, average)


@given(case=cases())
def test_quality_that_keeps_all_is_standard(case):
    segment = minrisk.Segment(case.hyps, source="a source")
    strategy = minrisk.QualityThenMBR(CHRF, Counting(), keep=len(case.hyps))
    assert_close(strategy.rank([segment])[0].utility,
                 minrisk.Standard(CHRF).rank([segment])[0].utility)


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("name", ["adaptive", "low-rank"])
def test_a_budget_is_kept(name, budget):
    hyps, refs = many(100), many(80, seed=1)
    distinct = len(set(hyps))
    ranking = minrisk.decode(hyps, refs, strategy=name, budget=budget)
    assert 0 < ranking.pairs <= budget * distinct * len(refs) + 2 * distinct


def test_a_strategy_with_a_budget_looks_at_fewer_pairs_and_still_finds_the_best(ntrex):
    found = {"prune": 0, "adaptive": 0}
    for index, record in enumerate(ntrex[:10]):
        segment = minrisk.Segment(record["samples"], position=index)
        [exact] = minrisk.Standard(CHRF).rank([segment])
        for name in found:
            [ranking] = minrisk.make_strategy(name).rank([segment])
            assert ranking.pairs < exact.pairs / 6
            found[name] += segment.hypotheses[ranking.best] == segment.hypotheses[exact.best]
    assert found["adaptive"] >= 9
    assert found["prune"] >= 7


def test_who_was_dropped_later_ranks_higher_and_has_no_utility():
    pool = next(iter(minrisk.bind(CHRF, [minrisk.Segment(["a b", "a c", "x", "a b d", "a b"])])))
    race = Race(pool, np.arange(5))
    race.meet(2)
    race.keep(np.array([0, 1, 3]))  # of the four distinct texts
    race.meet(3)
    race.keep(np.array([0, 2]))
    race.meet(5)
    ranking = race.ranking()
    assert ranking.order.tolist() == [3, 0, 4, 1, 2]
    assert np.isnan(ranking.utility[[1, 2]]).all()
    exact = minrisk.Standard(CHRF).rank([pool.segment])[0].utility
    assert_close(ranking.utility[[0, 3, 4]], exact[[0, 3, 4]])
    assert ranking.pairs == 4 * 2 + 3 * 1 + 2 * 1  # the fifth reference is the first again


@given(weights=st.lists(st.integers(0, 3), min_size=1, max_size=6).filter(any), seed=SEEDS)
def test_resamples_have_the_given_weights_on_average(weights, seed):
    given_weights = np.array(weights, float)
    drawn = resampled(given_weights, 4000, np.random.default_rng(seed))
    assert_close(drawn.sum(axis=1), 1, "fp32")
    assert not drawn[:, given_weights == 0].any()
    if len({w for w in weights if w}) == 1:  # only then is the mean of shares the share of means
        np.testing.assert_allclose(drawn.mean(axis=0), given_weights / given_weights.sum(),
                                   atol=0.03)


def test_completion_finds_a_matrix_of_low_rank():
    class LowRankScores:
        """Scores of rank 2 by construction."""

        name = "rank two"

        def features(self, texts):
            return np.random.default_rng(0).standard_normal((len(texts), 4))

        def scores(self, hyps, refs, source=None):
            return hyps[:, :2] @ refs[:, 2:].T

    hyps = [str(i) for i in range(120)]
    weights = np.random.default_rng(1).random(120)
    exact = minrisk.decode(hyps, weights=weights, metric=LowRankScores())
    guess = minrisk.decode(hyps, weights=weights, metric=LowRankScores(), strategy="low-rank",
                           budget=0.25, factors=3, ridge=0.1, iterations=30)
    assert guess.pairs <= 0.25 * exact.pairs
    assert np.abs(guess.utility - exact.utility).max() < 0.02 * np.abs(exact.utility).max()


@given(blocks=st.integers(1, 40), count=st.integers(1, 50), data=st.data())
def test_references_are_dealt_out_before_one_comes_again(blocks, count, data):
    size = data.draw(st.integers(1, count))
    seen = low_rank._random_references(blocks, count, size, np.random.default_rng(0))
    assert seen.shape == (blocks, size)
    assert all(len(set(row)) == size for row in seen.tolist())
    hands = count // size
    for start in range(0, blocks - hands + 1, hands):
        assert len(np.unique(seen[start:start + hands])) == hands * size


@given(points=st.lists(st.integers(-3, 3), min_size=1, max_size=12), count=st.integers(1, 5),
       seed=SEEDS)
def test_clusters_are_as_many_as_asked_for_or_as_there_are_points(points, count, seed):
    array = np.array(points, float)[:, None]
    labels = kmeans(array, np.ones(len(points)), count, 10, np.random.default_rng(seed))
    assert set(labels.tolist()) == set(range(min(count, len(set(points)))))
    for value in set(points):
        assert len(set(labels[array[:, 0] == value])) == 1


def test_clusters_are_where_the_points_are():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(c, 0.1, (20, 2)) for c in (0, 5, 10)])
    labels = kmeans(points, np.ones(60), 3, 10, rng)
    assert all(len(set(labels[i:i + 20])) == 1 for i in (0, 20, 40))
    assert len(set(labels)) == 3


def test_weights_move_centroids():
    """Whom a heavy point cannot come to meet, goes elsewhere, wherever the first centroids are."""
    line = np.array([[0.0], [5.0], [9.0]])
    together = [[labels[0] == labels[1] for seed in range(20) for labels in [
                    kmeans(line, np.array(weights), 2, 10, np.random.default_rng(seed))]]
                for weights in ([1.0, 1, 1], [99.0, 1, 1])]
    assert [any(found) for found in together] == [True, False]


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=12), count=st.integers(1, 5),
       seed=SEEDS)
def test_clusters_of_tensors_are_those_of_arrays(rows, count, seed):
    """Of points that may be equal, but lie between two centroids never so that rounding decides."""
    array = np.random.default_rng(seed).normal(size=(10, 3))[rows]
    weights = np.array(rows, float) + 1
    tensor = pytest.importorskip("torch").tensor(array)
    ours, theirs = (kmeans(p, weights, count, 10, np.random.default_rng(seed))
                    for p in (array, tensor))
    assert isinstance(theirs, np.ndarray)
    np.testing.assert_array_equal(theirs, ours)


def test_a_metric_without_vectors_says_so():
    with pytest.raises(minrisk.InputError, match=r"vectors .*'chrf'"):
        minrisk.decode(["a", "b"], strategy="centroid", centroids=2)


def test_reranking_is_by_quality_alone():
    hyps, source = ["aaa", "b", "ab", "b"], "xa"
    ranking = minrisk.decode(hyps, source=source, metric=Counting(), strategy="rerank")
    assert ranking.order.tolist() == [2, 1, 3, 0]
    assert ranking.utility.tolist() == [-3, -2, 0, -2]
    assert ranking.pairs == 3


def test_a_metric_without_quality_says_so():
    with pytest.raises(minrisk.InputError, match=r"'rerank' .*\(comet-qe, .*\); 'chrf'"):
        minrisk.decode(["a"], source="a", strategy="rerank")


def test_after_quality_only_the_kept_are_references_too():
    hyps = ["aaaa", "aa", "bb", "xxxxxxx"]
    ranking = minrisk.decode(hyps, source="ab", weights=[4, 3, 2, 1], strategy="quality-then-mbr",
                             quality=Counting(), keep=2)
    among = minrisk.decode(["aa", "bb"], weights=[3, 2])
    assert_close(ranking.utility[[1, 2]], among.utility)
    assert np.isnan(ranking.utility[[0, 3]]).all()
    assert ranking.pairs == 4
    refs = ["aaaa", "b"]
    ranking = minrisk.decode(hyps, refs, source="ab", strategy="quality-then-mbr",
                             quality=Counting(), keep=2)
    assert_close(ranking.utility[[1, 2]], minrisk.decode(["aa", "bb"], refs).utility)


def test_after_quality_a_count_is_that_many_references():
    hyps = ["aaaa", "aa", "bb", "xxxxxxx"]
    segment = minrisk.Segment(hyps, source="ab", counts=[1, 4, 2, 3])
    [ranking] = minrisk.QualityThenMBR(CHRF, Counting(), keep=2).rank([segment])
    among = minrisk.decode(["aa", "bb"], weights=[4, 2])
    assert_close(ranking.utility[[1, 2]], among.utility)


@given(hyps=text_lists, size=st.integers(1, 4))
def test_a_set_without_diversity_is_the_best_texts(hyps, size):
    ranking = minrisk.decode(hyps, strategy="diverse", size=size, diversity=0)
    exact = minrisk.decode(hyps)
    best = list(dict.fromkeys(hyps[i] for i in exact.order))[:size]
    assert [hyps[i] for i in ranking.order[: len(best)]] == best


@given(hyps=st.lists(st.sampled_from(["a b c", "a b d", "x y", "a c", "x"]), min_size=2,
                     max_size=7), diversity=st.sampled_from([0.3, 1.0, 3.0]))
def test_a_diverse_pair_starts_with_the_best_and_is_the_best_with_it(hyps, diversity):
    ranking = minrisk.decode(hyps, strategy="diverse", size=2, diversity=diversity)
    exact = minrisk.decode(hyps)
    features = CHRF.features(hyps)
    scores = CHRF.scores(features, features)
    first, second = ranking.order[:2]
    assert first == exact.best
    value = exact.utility - diversity / 2 * (scores[first] + scores[:, first])
    others = [value[i] for i, hyp in enumerate(hyps) if hyp != hyps[first]]
    if others:
        assert_close(value[second], max(others), scale=100)


@given(hyps=st.lists(st.text(alphabet="ab c", min_size=1, max_size=6), min_size=2, max_size=7),
       data=st.data())
def test_medoids_are_at_least_as_good_as_greedy_ones_and_no_exchange_betters_them(hyps, data):
    weights = data.draw(st.lists(st.integers(1, 4), min_size=len(hyps), max_size=len(hyps)))
    ranking = minrisk.decode(hyps, weights=weights, strategy="medoids", size=2)
    features = CHRF.features(hyps)
    scores, mass = CHRF.scores(features, features), np.array(weights) / sum(weights)

    def value(rows):
        return scores[list(rows)].max(axis=0) @ mass

    head = ranking.order[: min(2, len(set(hyps)))].tolist()
    assert len({hyps[i] for i in head}) == len(head)
    for exchanged in combinations(range(len(hyps)), len(head)):
        if set(exchanged) & set(head):
            assert value(exchanged) <= value(head) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "prune", "most": 9}, "most=9 of 3"),
        ({"strategy": "quality-then-mbr"}, "quality"),
    ],
)
def test_what_cannot_be_asked_for_is_said(options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(["a", "b", "c"], **options)
