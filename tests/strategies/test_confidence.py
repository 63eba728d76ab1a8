"""How sure a choice is: its margin, and the probability that very many samples make the same."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minrisk
from commands import run, write
from generators import cases
from minrisk.plugins import MeanUtility
from minrisk.strategies.confident import first_is_largest
from minrisk.testing import Case, check_strategy
from small_metrics import Counting, Median, many
from tolerance import assert_close

CHRF = minrisk.ChrF()


class LongIsGood(Counting):
    """A quality by length."""

    needs_source = False

    def features(self, texts):
        return np.array([len(text) for text in texts], float)

    def quality(self, hyps, source):
        return hyps


def judged(strategy, hyps, refs=None, weights=None, **options) -> minrisk.Ranking:
    [ranking] = minrisk.Confident(strategy, **options).rank([minrisk.Segment(hyps, refs, None,
                                                                            weights)])
    return ranking


# a sum over a matrix rounds otherwise than the sum in the native core
@example(case=Case(["aa"], ["aa"] * 6 + ["aaaaaaaaa"], [0] * 7, [1, 0, 0, 0, 0, 0, 3]))
@given(case=cases())
def test_confidence_changes_nothing_but_itself_and_the_pairs(case):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    for strategy in (minrisk.Standard(CHRF), minrisk.Aggregate(CHRF), minrisk.Adaptive(CHRF)):
        [plain], [sure] = strategy.rank([segment]), minrisk.Confident(strategy).rank([segment])
        np.testing.assert_array_equal(sure.order, plain.order)
        np.testing.assert_array_equal(sure.utility, plain.utility)
        weighty = {ref for ref, weight in zip(segment.references, segment.weights, strict=True)
                   if weight > 0}
        if len(weighty) > 1:
            assert sure.pairs == plain.pairs + len(set(case.hyps)) * len(weighty)
        if np.isnan(sure.confidence.probability):
            assert sure.confidence.reason
        else:
            assert 0 <= sure.confidence.probability <= 1


@pytest.mark.parametrize("sign", [1, -1])
def test_votes_with_rewards_are_no_shares_of_votes(sign):
    class Reward(LongIsGood):
        def quality(self, hyps, source):
            return sign * hyps

    vote = minrisk.ExactMatch(r"\d+")
    found = judged(minrisk.MBRBoN(vote, Reward()), ["so 7", "7", "thus 8", "8!", "it is 9"])
    assert 0 <= found.confidence.probability <= 1
    assert found.confidence.share is None


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


def test_one_reference_says_nothing_and_two_that_disagree_leave_even_chances():
    one = judged(minrisk.Standard(CHRF), ["a b", "c d"], ["a b c"]).confidence
    assert np.isnan(one.probability)
    assert one.reason
    even = judged(minrisk.Standard(CHRF), ["ab", "cd"], ["ab", "cd"]).confidence.probability
    assert even == pytest.approx(0.5, abs=0.06)
    for count in (2, 3):  # what agrees with itself alone is as good as any other
        alone = judged(minrisk.Standard(CHRF), ["ab", "cd", "ef"][:count]).confidence
        assert alone.probability == pytest.approx(1 / count)


def test_a_single_hypothesis_is_certain_and_so_is_one_that_no_reference_tells_apart():
    for hyps in (["a"], ["a b", "a  b"]):
        assert judged(minrisk.Standard(CHRF), hyps).confidence.probability == 1
    same = judged(minrisk.Standard(CHRF), ["a b", "a  b", "x"], ["a b", "a b c", "a", "b"])
    assert same.confidence.probability == 1


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
    even, three, thirty = (judged(minrisk.Standard(CHRF), ["ab", "cd"], ["ab", "cd"],
                                  [w, 1]).confidence.probability for w in (1, 3, 30))
    assert even < three < thirty < 1


def test_a_poor_choice_is_told_from_a_good_one():
    class Last(MeanUtility):
        name = "last"
        metric = CHRF

        def rank(self, segments):
            return [minrisk.Ranking.from_utility(np.arange(len(s.hypotheses)) * 1.0)
                    for s in segments]

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


def corrupted(count, rng):
    """Texts that lost some words of the same sentence, and got others in their place."""
    words = np.array(["the", "cat", "sat", "on", "a", "mat", "dog", "and", "ran", "far", "away"])
    sentence, found = rng.choice(words, 12), []
    for loss in rng.uniform(0, 0.6, count):
        lost = rng.random(sentence.size) < loss
        found.append(" ".join(np.where(lost, rng.choice(words, sentence.size), sentence)))
    return found


def test_the_probability_is_calibrated_where_references_are_the_samples():
    """Right is what 1,000 references choose of the same hypotheses. """
    rng = np.random.default_rng(0)
    sure, right = [], []
    for _ in range(40):
        everyone = corrupted(1000, rng)
        for hyps in np.split(np.array(everyone[:64]), 8):
            ranking = judged(minrisk.Standard(CHRF), hyps.tolist())
            sure.append(ranking.confidence.probability)
            utility = minrisk.decode(hyps.tolist(), everyone).utility
            right.append(utility[ranking.best] == utility.max())
    assert abs(np.mean(sure) - np.mean(right)) < 0.2  # the bootstrap was off by 0.39


def test_leaving_self_out_changes_no_probability():
    """It leaves out what is no evidence anyway."""
    hyps = many(12)
    kept, left = (judged(minrisk.Standard(CHRF, leave_self_out=out), hyps) for out in (False, True))
    assert kept.best == left.best
    assert kept.confidence.probability == left.confidence.probability


@pytest.mark.parametrize("metric", ["chrf", "ter"])
def test_what_has_no_other_reference_has_no_chance(metric):
    """The best TER is 0, which is no utility of a hypothesis that nothing judges."""
    strategy = minrisk.make_strategy("standard", metric, leave_self_out=True)
    ranking = judged(strategy, ["a b c", "a b d", "x y"], None, [0, 1, 0])
    assert ranking.order.tolist() == [0, 2, 1]
    assert np.isnan(ranking.utility[1])
    assert ranking.confidence.reason  # one reference has all the weight


def test_a_count_makes_as_sure_as_repetitions_do():
    hyps, counts = ["the cat sat", "the cat sits", "a dog"], [40, 25, 1]
    [counted] = minrisk.Confident(minrisk.Standard(CHRF)).rank([
        minrisk.Segment(hyps, counts=counts)])
    repeated = judged(minrisk.Standard(CHRF), np.repeat(hyps, counts).tolist())
    assert counted.confidence.probability == pytest.approx(
        repeated.confidence.probability, abs=0.01)
    assert 0.5 < counted.confidence.probability < 1


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


@pytest.mark.parametrize("wrap", [lambda s: s, minrisk.Uncertain,
                                  lambda s: minrisk.Cascade(minrisk.Standard(CHRF), s)])
def test_a_strategy_that_declares_no_mean_has_a_reason_for_no_probability(wrap):
    found = judged(wrap(Median()), ["a b", "a b", "a b c", "x"]).confidence
    assert found.margin > 0
    assert np.isnan(found.probability)
    assert "median" in found.reason


def test_a_reward_counts_in_the_confidence_of_mbr_bon():
    """The reward says "x", clearly; the mean score alone says something else."""
    hyps = ["the cat sat", "the cat sits", "the cat sat down", "xxxxxxxxxxxxxxxxxxxxxxxx"]
    clear, doubtful = (judged(minrisk.MBRBoN(CHRF, LongIsGood(), beta=beta), hyps)
                       for beta in (1e-3, 1e3))
    assert clear.best == 3
    assert clear.confidence.probability > 0.99
    assert doubtful.best != 3
    assert doubtful.confidence.probability < 1


VOTE = minrisk.Standard(minrisk.ExactMatch(r"\b\d+\b"))


def test_samples_without_an_answer_are_dissent():
    none = ["no idea", "who knows?", "hm", "well", "let me see", "sorry", "..."]
    lonely = judged(VOTE, ["it is 3", *none]).confidence
    assert lonely.share == 1 / 8
    assert 0.14 < lonely.probability < 0.22  # 1 / (1 + 1 + 7 / 2): two of them count as one rival
    less = [judged(VOTE, ["3"] * 4 + ["4"] * 2 + none[:n]).confidence.probability for n in (0, 4)]
    assert less[1] < less[0]
    with pytest.warns(UserWarning, match="none"):
        assert judged(VOTE, none).confidence.reason


def test_a_vote_has_a_share_with_an_interval():
    found = judged(VOTE, ["3"] * 12 + ["4"] * 4).confidence
    assert found.share == found.margin + 0.25 == 0.75
    low, high = found.interval
    assert 0.4 < low < 0.75 < high < 1
    assert judged(VOTE, ["3"] * 16).confidence.interval[1] == pytest.approx(1)
    assert judged(minrisk.Standard(CHRF), ["3", "4"]).confidence.interval is None


@pytest.mark.parametrize(("votes", "unseen"), [
    ([1.0], 4.5), ([8.0, 7.0], 1.0), ([5.0, 4.0, 2.0, 1.0, 1.0], 1.0), ([2.5, 0.7, 0.3], 1.2),
    ([1000.0, 990.0, 950.0], 1.0), ([3.0, 9.0], 2.0), ([2.0, 0.0], 1.0), ([0.0, 2.0], 1.0)])
def test_the_probability_of_a_vote_is_that_of_draws_from_its_posterior(votes, unseen):
    rng, draws = np.random.default_rng(0), 100_000
    first, *others = rng.standard_gamma(np.array(votes)[:, None], (len(votes), draws))
    new = -np.log1p(-(rng.random(draws) ** (1 / unseen)))  # the largest of the exponential ones
    expected = np.mean(first >= np.max([new, *others], axis=0))
    found = first_is_largest(np.array(votes), unseen)
    assert abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / draws) + 1e-4


def test_the_seed_changes_nothing_in_a_vote():
    vote = minrisk.Standard(minrisk.ExactMatch(r"\d+"))
    found = [minrisk.decode(["7", "7", "8", "9"], strategy=minrisk.Confident(vote, seed=seed))
             .confidence.probability for seed in (0, 1)]
    assert found[0] == found[1]


def test_votes_are_calibrated_and_their_intervals_cover():
    """Draws of answers from known distributions, with a sample that has none now and then."""
    rng = np.random.default_rng(0)
    sure, right, covered = [], [], []
    for _ in range(600):
        size = int(rng.integers(2, 12))
        p = rng.dirichlet(np.full(size, 0.7))
        drawn = rng.choice(size, 16, p=p)
        found = minrisk.Confident(VOTE, resamples=200).rank([
            minrisk.Segment([str(answer) for answer in drawn])])[0]
        best, confidence = drawn[found.best], found.confidence
        sure.append(confidence.probability)
        right.append(best == p.argmax())
        covered.append(confidence.interval[0] <= p[best] <= confidence.interval[1])
    assert abs(np.mean(sure) - np.mean(right)) < 0.05
    assert 0.92 < np.mean(covered) < 0.99


def test_the_margin_of_equal_answers_is_to_the_next_answer():
    pytest.importorskip("math_verify")
    found = judged(minrisk.make_strategy("standard", "symbolic"),
                   ["\\boxed{1/2}", "\\boxed{0.5}", "\\boxed{3}"]).confidence
    assert found.margin == pytest.approx(1 / 3)
    assert found.share == pytest.approx(2 / 3)


def test_a_seed_of_the_confidence_goes_with_any_strategy():
    samples = [["a b", "a b", "a c"]]
    [found] = minrisk.decode_corpus(samples, strategy=minrisk.Standard("chrf"), confidence=True,
                                    seed=3)
    [named] = minrisk.decode_corpus(samples, strategy="standard", confidence=True, seed=3)
    assert found.ranking.confidence == named.ranking.confidence
    with pytest.raises(minrisk.InputError):  # nothing is drawn
        list(minrisk.decode_corpus(samples, strategy=minrisk.Standard("chrf"), seed=3))


def test_decode_tells_how_sure_it_is(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a b", "a b", "a c"]}, {"samples": ["x"]})
    first, second = run("decode", path, "--confidence").records
    assert first["confidence"]["margin"] > 0
    assert first["confidence"]["probability"] > 0.5
    assert second["confidence"] == {"margin": None, "probability": 1.0, "gain": 0.0}
    assert "confidence" not in run("decode", path).records[0]
    assert run("decode", path, "--confidence", "--format", "text").code == 2
    alone = write(tmp_path / "alone.jsonl", {"samples": ["a b", "a c"], "references": ["a"]})
    [line] = run("decode", alone, "--confidence").records
    assert line["confidence"]["probability"] is None
    assert line["confidence"]["reason"]


@pytest.mark.parametrize("metric", ["chrf", "exact-match", "ter"])
@pytest.mark.parametrize("weights", [None, [1, 2, 3, 1]])
def test_the_gain_is_over_what_a_random_sample_is_worth(metric, weights):
    strategy = minrisk.Uncertain(minrisk.Confident(minrisk.Standard(metric)))
    samples = ["the cat sat", "a cat sat", "the cat sat", "dogs"]
    found = minrisk.decode(samples, weights=weights, counts=[1, 2, 1, 3], strategy=strategy)
    assert_close(found.confidence.gain, found.utility.max() - found.uncertainty.utility)


def test_there_is_no_gain_where_a_stage_left_utilities_out():
    strategy = minrisk.Confident(minrisk.make_strategy("aggregate-to-fine", keep=1))
    assert minrisk.decode(["a b", "a c", "d"], strategy=strategy).confidence.gain is None


def test_the_model_is_as_sure_as_the_tokens_of_the_samples_with_the_answer():
    strategy = minrisk.Confident(minrisk.Standard(minrisk.ExactMatch(r"\d")))
    given = {"logprobs": [-2, -8, -1, -3], "lengths": [2, 4, 1, 3], "counts": [1, 3, 1, 1]}
    found = minrisk.decode(["it is 7", "7", "8", "?"], strategy=strategy, **given).confidence
    assert_close(found.logprob, -(1 + 3 * 2) / 4)
    assert_close(found.share, 4 / 6)
    assert_close(found.cocoa, (1 + 3 * 2) / 4 * (1 - 4 / 6))


def test_cocoa_is_the_doubt_of_the_model_times_the_disagreement_of_the_samples():
    strategy, texts = minrisk.Confident(minrisk.Standard("chrf")), ["the cat sat", "a cat", "dogs"]
    ranking = minrisk.decode(texts, logprobs=[-6, -2, -2], lengths=[3, 2, 1], strategy=strategy)
    assert (ranking.text, ranking.confidence.logprob) == ("the cat sat", -2)
    chrf = minrisk.ChrF()
    scores = chrf.scores(chrf.features([ranking.text]), chrf.features(texts)) / 100
    assert_close(ranking.confidence.cocoa, 2 * (1 - scores.mean()))
    agreed = minrisk.decode(["a", "a"], logprobs=[-1, -1], strategy=strategy).confidence
    assert (agreed.logprob, agreed.cocoa) == (-1, 0)


@pytest.mark.parametrize("given", [{}, {"logprobs": [-1, -2], "references": ["a", "c"]}])
def test_where_something_is_not_known_there_is_no_cocoa(given):
    strategy = minrisk.Confident(minrisk.Standard("chrf"))
    found = minrisk.decode(["b a", "a b"], strategy=strategy, **given).confidence
    assert found.cocoa is None
    assert (found.logprob is None) == ("logprobs" not in given)


@pytest.mark.parametrize("votes", [1, 3, 17, 1000, 10**6])
def test_the_probability_of_a_vote_without_rivals_is_at_most_one(votes):
    assert 0.99 < first_is_largest(np.array([float(votes)]), 0) <= 1
