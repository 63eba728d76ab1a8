"""How sure a choice is: its margin, and how often resampled references would give it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import cases
from minrisk.testing import check_strategy
from small_metrics import Counting, many
from tolerance import assert_close

CHRF = minrisk.ChrF()


def judged(strategy, hyps, refs=None, weights=None, **options) -> minrisk.Ranking:
    [ranking] = minrisk.Confident(strategy, **options).rank([minrisk.Segment(hyps, refs, None,
                                                                            weights)])
    return ranking


@given(case=cases())
def test_confidence_changes_nothing_but_itself_and_the_pairs(case):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    for strategy in (minrisk.Standard(CHRF), minrisk.Aggregate(CHRF), minrisk.Adaptive(CHRF)):
        [plain], [sure] = strategy.rank([segment]), minrisk.Confident(strategy).rank([segment])
        np.testing.assert_array_equal(sure.order, plain.order)
        np.testing.assert_array_equal(sure.utility, plain.utility)
        assert sure.pairs == plain.pairs + len(set(case.hyps)) * len(set(case.refs))
        assert 0 <= sure.confidence.probability <= 1


@given(segments=st.lists(cases(), min_size=1, max_size=3))
def test_it_keeps_the_contract(segments):
    check_strategy(minrisk.Confident(minrisk.Aggregate(CHRF)), [
        minrisk.Segment(c.hyps, c.refs, None, c.weights, i) for i, c in enumerate(segments)])


def test_the_margin_is_to_the_next_different_text():
    hyps = ["the cat sat", "the cat sat", "the cat", "x"]
    ranking = judged(minrisk.Standard(CHRF), hyps)
    assert_close(ranking.confidence.margin, ranking.utility[0] - ranking.utility[2], scale=100)
    assert np.isnan(judged(minrisk.Standard(CHRF), ["a", "a"]).confidence.margin)
    assert np.isnan(judged(minrisk.AggregateToFine(CHRF, keep=1), hyps).confidence.margin)


def test_one_reference_leaves_no_doubt_and_two_that_disagree_do():
    assert judged(minrisk.Standard(CHRF), ["a b", "c d"], ["a b c"]).confidence.probability == 1
    even = judged(minrisk.Standard(CHRF), ["ab", "cd"], ["ab", "cd"]).confidence.probability
    assert even == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("wrap", [minrisk.Confident, minrisk.Uncertain])
def test_a_strategy_that_compares_no_texts_is_measured_without_pairs(wrap):
    """Its metric could score them; with a judge each of them would be a request."""
    segment = minrisk.Segment(["a", "a b", "a b c"], source="a b")
    plain, measured = (strategy.rank([segment])[0] for strategy in (
        minrisk.Rerank(Counting()), wrap(wrap(minrisk.Rerank(Counting())))))
    assert measured.pairs == plain.pairs
    if measured.confidence is None:
        assert measured.uncertainty.clusters == 3
    else:
        assert measured.confidence.margin > 0
        assert np.isnan(measured.confidence.probability)


def test_heavier_references_make_surer():
    sure = [judged(minrisk.Standard(CHRF), ["ab", "cd"], ["ab", "cd"],
                   [w, 1]).confidence.probability for w in (1, 3, 30)]
    # Exp(1) beats w other Exp(1) with 1 / (1 + w)
    np.testing.assert_allclose(sure, [1 / 2, 3 / 4, 30 / 31], atol=0.06)


def test_a_poor_choice_is_told_from_a_good_one():
    class Last:
        name = "last"
        metric = CHRF

        def rank(self, segments):
            return [minrisk.Ranking.of(np.arange(len(s.hypotheses)) * 1.0) for s in segments]

    hyps = ["the cat sat"] * 20 + ["the cat sits"] * 20 + ["zzz"]
    assert judged(Last(), hyps).confidence.probability == 0
    assert judged(minrisk.Standard(CHRF), hyps).confidence.probability > 0.5


def test_surer_choices_are_right_more_often():
    """Right is what 3000 references choose; 60 of them judge."""
    rng = np.random.default_rng(0)
    everyone = many(3000, seed=1)
    sure, right = [], []
    for seed in range(150):
        hyps = list(dict.fromkeys(many(8, seed=seed)))
        ranking = judged(minrisk.Standard(CHRF), hyps, list(rng.choice(everyone, 60)))
        sure.append(ranking.confidence.probability)
        right.append(ranking.best == minrisk.decode(hyps, everyone).best)
    surest = np.argsort(sure)[75:]
    assert np.mean(np.array(right)[surest]) > np.mean(right)
    assert abs(np.mean(sure) - np.mean(right)) < 0.1


def test_leaving_self_out_is_honoured():
    hyps, weights = ["a b c", "a b d", "x y"], [1.0, 1.0, 10.0]
    out = judged(minrisk.Standard(CHRF, leave_self_out=True), hyps, None, weights)
    assert out.best != 2
    assert out.confidence.probability > 0.5
    assert judged(minrisk.Standard(CHRF), hyps, None, weights).best == 2


def test_a_count_makes_as_sure_as_repetitions_do():
    hyps, counts = ["the cat sat", "the cat sits", "a dog"], [40, 25, 1]
    [counted] = minrisk.Confident(minrisk.Standard(CHRF)).rank([
        minrisk.Segment(hyps, counts=counts)])
    repeated = judged(minrisk.Standard(CHRF), np.repeat(hyps, counts).tolist())
    assert counted.confidence == repeated.confidence
    assert 0.5 < counted.confidence.probability < 1


@pytest.mark.parametrize("leave_self_out", [False, True])
def test_equal_references_are_resampled_together_as_if_they_were_alone(leave_self_out):
    """Many draws of either kind have the same chances."""
    hyps, counts = ["the cat sat", "the cat sits", "a dog"], [20, 17, 9]
    strategy = minrisk.Standard(CHRF, leave_self_out)
    together = minrisk.Confident(strategy, resamples=20_000).rank([
        minrisk.Segment(hyps, counts=counts)])[0].confidence.probability
    [pool] = minrisk.bind(CHRF, [minrisk.Segment(hyps, counts=counts)])
    drawn = np.random.default_rng(1).standard_exponential((20_000, sum(counts)))
    drawn /= drawn.sum(axis=1, keepdims=True)
    own = pool.segment.self_columns if leave_self_out else np.array([], int)
    utility = pool.scores() @ drawn.T
    if leave_self_out:
        itself = drawn.T[own]
        utility = (utility - 100 * itself) / (1 - itself)
    wins = np.mean(utility.argmax(axis=0) == pool.utility(leave_self_out=leave_self_out).argmax())
    assert 0.5 < wins < 1
    assert together == pytest.approx(wins, abs=0.02)  # six standard errors


def test_the_memory_of_confidence_grows_with_distinct_texts_alone():
    tracemalloc.start()
    try:
        [ranking] = minrisk.Confident(minrisk.Standard(CHRF)).rank([
            minrisk.Segment(["a cat", "the cat"], counts=[40_000, 30_000])])
        assert tracemalloc.get_traced_memory()[1] < 50e6  # 280 MB for a weight of each
    finally:
        tracemalloc.stop()
    assert ranking.best == 0


def test_features_are_extracted_once_and_seeds_repeat():
    class Once(Counting):
        made = 0

        def features(self, texts):
            Once.made += 1
            return super().features(texts)

    segment = minrisk.Segment(many(20), source="source")
    runs = [minrisk.Confident(minrisk.Standard(Once()), seed=s).rank([segment])[0]
            for s in (0, 0, 1)]
    assert Once.made == 3
    assert runs[0].confidence == runs[1].confidence


def test_decode_tells_how_sure_it_is(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a b", "a b", "a c"]}, {"samples": ["x"]})
    first, second = run("decode", path, "--confidence").records
    assert first["confidence"]["margin"] > 0
    assert first["confidence"]["probability"] > 0.5
    assert second["confidence"] == {"margin": None, "probability": 1.0}
    assert "confidence" not in run("decode", path).records[0]
    assert run("decode", path, "--confidence", "--format", "text").code == 2
