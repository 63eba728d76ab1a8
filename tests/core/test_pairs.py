"""Every ranking says how many pairs were evaluated for it, and that is what the metric did."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given

import minrisk
from commands import run
from generators import FEW, cases
from minrisk._core.pool import ScoreMatrix
from small_metrics import Counting, many
from tolerance import assert_close

STRATEGIES = {
    "standard": {},
    "n-by-s": {"subset": 1},
    "aggregate": {},
    "aggregate-to-fine": {"keep": 1},
    "prune": {"start": 1},
    "adaptive": {"budget": 0.5},
    "low-rank": {"budget": 0.5},
    "centroid": {"centroids": 2},
    "rerank": {},
    "universal-self-consistency": {},
    "diverse": {"size": 2},
    "medoids": {"size": 2},
}


@pytest.mark.parametrize("name", STRATEGIES)
@FEW
@given(case=cases())
def test_the_pairs_of_a_ranking_are_those_the_metric_evaluated(name, case):
    metric = Counting()
    segment = minrisk.Segment(case.hyps, case.refs, "source", case.weights)
    [ranking] = minrisk.make_strategy(name, metric, **STRATEGIES[name]).rank([segment])
    assert ranking.pairs == metric.pairs > 0


def test_equal_texts_are_evaluated_once():
    assert minrisk.decode(["a", "a", "b", "b"], ["c", "c", "d"]).pairs == 4
    assert minrisk.decode(["a", "a", "b"], strategy="aggregate").pairs == 2


def test_references_without_weight_are_not_evaluated():
    assert minrisk.decode(["a", "b"], ["c", "d"], weights=[1, 0]).pairs == 2


def test_both_stages_of_a_cascade_count_if_they_share_the_metric():
    hyps = [f"text {i}" for i in range(6)]
    assert minrisk.decode(hyps, strategy="aggregate-to-fine", keep=2).pairs == 6 + 2 * 6
    cheap = Counting()
    assert minrisk.decode(hyps, source="a", strategy="coarse-to-fine", coarse=cheap,
                          keep=2).pairs == 2 * 6
    assert minrisk.decode(hyps, source="a", strategy="quality-then-mbr", quality=cheap,
                          keep=2).pairs == 2 * 2
    assert minrisk.decode(hyps, source="a", strategy="mbr-bon", quality=cheap).pairs == 6 * 6


def test_a_batch_that_is_ranked_again_counts_anew():
    batch = minrisk.Batch([minrisk.Segment(["a", "b", "c"])])
    strategy = minrisk.Standard(minrisk.ChrF())
    assert [strategy.rank(batch)[0].pairs for _ in range(2)] == [9, 9]


def test_decode_tells_the_pairs(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({"samples": ["a", "b", "b", "c"]}) + "\n", encoding="utf-8")
    done = run("decode", path, "--utilities")
    assert done.records[0]["pairs"] == 9
    assert ", 9 pairs, " in done.err
    assert "pairs" not in run("decode", path).records[0]


def test_scores_that_were_kept_are_not_computed_again():
    metric = Counting()
    standard = minrisk.Standard(metric)
    segments = minrisk.Batch([minrisk.Segment(["a b", "b", "a b", "c"], source="s", position=i)
                              for i in range(2)])
    kept = [pool.keep_scores() for pool in minrisk.bind(standard.metric, segments)]
    seen = metric.pairs
    assert seen == 2 * 3 * 3  # distinct texts
    rankings = standard.rank(segments)
    without_self = minrisk.Standard(standard.metric, leave_self_out=True).rank(segments)
    assert metric.pairs == seen
    plain = standard.rank(list(segments))
    for ranking, expected, own, matrix in zip(rankings, plain, without_self, kept, strict=True):
        assert_close(ranking.utility, expected.utility)
        assert_close(ranking.utility, matrix.mean(axis=1))
        assert ranking.pairs == expected.pairs == own.pairs


@pytest.mark.parametrize("references", [None, ["a cat", "cat sat", "red mats"]])
@pytest.mark.parametrize("name", ["standard", "diverse", "medoids", "prune", "adaptive",
                                  "low-rank"])
def test_scores_that_were_kept_change_no_ranking(name, references):
    """Also where a strategy asks for pairs that are not among them, as of two hypotheses."""
    strategy = minrisk.make_strategy(name)
    for seed in range(5):
        segment = minrisk.Segment(many(6, seed), references)
        batch = minrisk.Batch([segment])
        for pool in batch.pools(strategy.metric):
            pool.keep_scores()
        [kept], [plain] = strategy.rank(batch), strategy.rank([segment])
        assert kept.order.tolist() == plain.order.tolist()
        assert_close(kept.utility, plain.utility, scale=100)


def test_scores_are_looked_up_only_of_texts_that_were_scored():
    matrix = ScoreMatrix()
    matrix.fill(np.array([0, 2]), np.array([1, 3]), np.array([[1.0, 2.0], [3.0, 4.0]]), 4)
    assert matrix.at(np.array([2]), np.array([3, 1])).tolist() == [[4, 3]]
    assert matrix.at(np.array([1]), np.array([1])) is None
    assert matrix.at(np.array([0]), np.array([2])) is None
