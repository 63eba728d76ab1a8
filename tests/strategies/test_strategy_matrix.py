"""What holds for every strategy of the registry, with its defaults or as its line in LINES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import FEW, cases
from minrisk._core.registry import STRATEGIES
from minrisk.testing import check_strategy
from small_metrics import Counting, Curved, many
from tolerance import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:exact-match. the pattern")  # of no answers at all
CHRF, LENGTHS = minrisk.ChrF(), Counting()


class Apart(Curved):
    """Without ties, of which only some would be kept."""

    def features(self, texts):
        return np.array([1e-4 * np.dot(range(len(t)), list(map(ord, t))) for t in texts])


class Tiled(Counting):
    """The same whatever the reference: quality as a score."""

    def scores(self, hyps, refs, source=None):
        return np.tile(self.quality(hyps, source)[:, None], len(refs))


class Chosen(Counting):
    """1 for what `Counting` would choose, as a quality."""

    def quality(self, hyps, source):
        return np.eye(len(hyps))[self.choose(hyps, np.array([1, 4, 1, 2]), source)]


@dataclass(frozen=True)
class Line:
    """A strategy between its limits, at one of them, and what it is there."""

    between: Callable[[], minrisk.Strategy]
    limit: Callable[[int, int], minrisk.Strategy]  # with so many hypotheses and references
    there: minrisk.Strategy


_EXACT = minrisk.Standard(CHRF)

LINES = {  # strategies that can become another one
    "standard": Line(
        lambda: _EXACT, lambda hyps, refs: _EXACT, minrisk.Aggregate(CHRF, 9)),
    "n-by-s": Line(
        lambda: minrisk.NByS(CHRF, 3), lambda hyps, refs: minrisk.NByS(CHRF, refs), _EXACT),
    "aggregate": Line(
        lambda: minrisk.Aggregate(CHRF, 3), lambda hyps, refs: minrisk.Aggregate(CHRF, refs),
        _EXACT),
    "aggregate-to-fine": Line(
        lambda: minrisk.AggregateToFine(CHRF, 3, groups=3),
        lambda hyps, refs: minrisk.AggregateToFine(CHRF, hyps), _EXACT),
    "coarse-to-fine": Line(
        lambda: minrisk.CoarseToFine(CHRF, minrisk.ChrF(order=1), 3),
        lambda hyps, refs: minrisk.CoarseToFine(CHRF, minrisk.ChrF(order=1), hyps), _EXACT),
    "cascade": Line(
        lambda: minrisk.Cascade(minrisk.Aggregate(minrisk.ChrF(order=1)), minrisk.NByS(CHRF, 2), 3),
        lambda hyps, refs: minrisk.Cascade(minrisk.Aggregate(minrisk.ChrF(order=1)), _EXACT, hyps),
        _EXACT),
    "prune": Line(
        lambda: minrisk.Prune(CHRF, 0.5, 2), lambda hyps, refs: minrisk.Prune(CHRF, 1.0, 1),
        _EXACT),
    "adaptive": Line(
        lambda: minrisk.Adaptive(CHRF, 0.3), lambda hyps, refs: minrisk.Adaptive(CHRF, 1.0),
        _EXACT),
    "centroid": Line(
        lambda: minrisk.Centroid(LENGTHS, 3), lambda hyps, refs: minrisk.Centroid(LENGTHS, refs),
        minrisk.Standard(LENGTHS)),
    "low-rank": Line(
        lambda: minrisk.LowRank(CHRF, 0.3, factors=2),
        lambda hyps, refs: minrisk.LowRank(CHRF, 1.0), _EXACT),
    "control-variate": Line(
        lambda: minrisk.ControlVariate(Apart(), 0.02),
        lambda hyps, refs: minrisk.ControlVariate(Apart(), 1.0), minrisk.Standard(Apart())),
    "rerank": Line(
        lambda: minrisk.Rerank(LENGTHS), lambda hyps, refs: minrisk.Rerank(LENGTHS),
        minrisk.Standard(Tiled())),
    "quality-then-mbr": Line(
        lambda: minrisk.QualityThenMBR(CHRF, LENGTHS, 3),
        lambda hyps, refs: minrisk.QualityThenMBR(CHRF, LENGTHS, hyps), _EXACT),
    "mbr-bon": Line(
        lambda: minrisk.MBRBoN(CHRF, LENGTHS, 0.5),
        lambda hyps, refs: minrisk.MBRBoN(CHRF, LENGTHS, 0.0), minrisk.Rerank(LENGTHS)),
    "universal-self-consistency": Line(
        lambda: minrisk.UniversalSelfConsistency(LENGTHS),
        lambda hyps, refs: minrisk.UniversalSelfConsistency(LENGTHS), minrisk.Rerank(Chosen())),
    "fuse": Line(
        lambda: minrisk.Fuse(CHRF, LENGTHS), lambda hyps, refs: minrisk.Fuse(CHRF, LENGTHS),
        _EXACT),
    "diverse": Line(
        lambda: minrisk.Diverse(CHRF), lambda hyps, refs: minrisk.Diverse(CHRF, 1), _EXACT),
    "medoids": Line(
        lambda: minrisk.Medoids(CHRF), lambda hyps, refs: minrisk.Medoids(CHRF, 1), _EXACT),
    "cluster": Line(
        lambda: minrisk.Cluster(CHRF, minrisk.ChrF(order=2)),
        lambda hyps, refs: minrisk.Cluster(CHRF, minrisk.ChrF(order=2), 0.0), _EXACT),
}


def between(name: str) -> minrisk.Strategy:
    """The strategy between its limits; with its defaults if it has no line."""
    return LINES[name].between() if name in LINES else STRATEGIES.make(name, metric=CHRF)


def at_limit(name: str, hyps: int, refs: int) -> minrisk.Strategy:
    """The strategy at its limit for so many hypotheses and references, if it has one."""
    return LINES[name].limit(hyps, refs) if name in LINES else between(name)


NAMES = [*STRATEGIES.builtin]
SETS = {"diverse", "medoids"}  # which put one text of each kind first
DRAWING = [name for name in NAMES if "seed" in STRATEGIES.get(name).__dataclass_fields__
           and name != "aggregate-to-fine"]  # whose seed seldom changes what is kept
# hypotheses dealt into blocks at random get other references when they stand elsewhere, and of
# hypotheses of equal quality the first are kept, or chosen
UNORDERED = [name for name in NAMES
             if name not in ("low-rank", "quality-then-mbr", "universal-self-consistency")]


def test_every_line_is_of_a_strategy():
    assert set(LINES) <= set(STRATEGIES.builtin)


def counted() -> minrisk.Segment:
    """Unequal weights, equal texts, and samples that count for several."""
    return minrisk.Segment(["the cat sat", "a cat", "the cat sat down", "a cat", "dogs"],
                           source="a cat sat", weights=[1, 2, 4, 1, 3], counts=[1, 3, 1, 1, 2])


KINDS = {  # of metrics, beside chrF, which is not symmetric and averages references
    "vote": minrisk.ExactMatch(r"\w+$"), "symmetric": minrisk.Symmetric(CHRF),
    "lower is better": minrisk.make_metric("ter"), "lengths, source": LENGTHS}
kinds = st.sampled_from([CHRF, *KINDS.values()])


def with_metric(metric: object, *strategies: minrisk.Strategy) -> list[minrisk.Strategy]:
    """The strategies with this metric in the place of chrF; as they are if one of them cannot."""
    def changed(strategy: minrisk.Strategy) -> minrisk.Strategy:
        if isinstance(strategy, minrisk.Cascade):
            return replace(strategy, fine=changed(strategy.fine))
        return replace(strategy, metric=metric) if strategy.metric == CHRF else strategy

    try:
        return [*map(changed, strategies)]
    except minrisk.InputError:  # the metric averages no references
        return [*strategies]


def check_limit(name: str, segment: minrisk.Segment, metric: object = CHRF) -> None:
    line = LINES[name]
    strategy, there = with_metric(
        metric, line.limit(len(segment.hypotheses), len(segment.references)),
        replace(line.there, groups=len(segment.references)) if name == "standard" else line.there)
    [ranking], [expected] = strategy.rank([segment]), there.rank([segment])
    assert_close(ranking.utility, expected.utility, scale=100)
    np.testing.assert_array_equal(ranking.order, expected.order)


@pytest.mark.parametrize("name", LINES)
def test_at_its_limit_it_is_another_with_weights_duplicates_and_counts(name):
    check_limit(name, counted())


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(segments=st.lists(cases(), min_size=1, max_size=2))
def test_it_keeps_the_contract(name, segments):
    check_strategy(between(name), [
        minrisk.Segment(c.hyps * 3, c.refs * 3, "source", c.weights * 3, i)
        for i, c in enumerate(segments)])


@pytest.mark.parametrize("name", NAMES)
def test_one_hypothesis_is_chosen(name):
    segment = minrisk.Segment(["alone"], source="source")
    [ranking] = at_limit(name, 1, 1).rank([segment])
    assert ranking.order.tolist() == [0]
    assert np.isfinite(ranking.utility[0])


@pytest.mark.parametrize("name", NAMES)
def test_equal_hypotheses_have_equal_utilities_and_ranks_in_sample_order(name):
    hyps = many(20) * 2
    [ranking] = between(name).rank([minrisk.Segment(hyps, many(30, 1), "source")])
    np.testing.assert_array_equal(ranking.utility[:20], ranking.utility[20:])
    places = np.argsort(ranking.order)
    assert np.all(places[:20] < places[20:])


@pytest.mark.parametrize("name", DRAWING)
def test_random_choices_depend_on_the_seed_alone(name):
    segment = minrisk.Segment(many(), many(seed=1), "source")
    runs = [replace(between(name), seed=seed).rank([segment])[0] for seed in (0, 0, 1, 2)]
    np.testing.assert_array_equal(runs[0].utility, runs[1].utility)
    assert any(not np.array_equal(runs[0].utility, r.utility, equal_nan=True) for r in runs[2:])


@pytest.mark.parametrize("name", UNORDERED)
def test_the_order_of_hypotheses_does_not_matter(name):
    hyps, refs = list(dict.fromkeys(many(30))), many(20, seed=1)
    rows = np.random.default_rng(0).permutation(len(hyps))
    strategy = between(name)
    [one] = strategy.rank([minrisk.Segment(hyps, refs, "source")])
    [other] = strategy.rank([minrisk.Segment([hyps[i] for i in rows], refs, "source")])
    assert_close(other.utility, one.utility[rows], scale=100)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_references_does_not_matter_at_the_limit(name):
    hyps, refs = many(30), many(20, seed=1)
    weights = np.random.default_rng(0).random(len(refs))
    turned = np.random.default_rng(1).permutation(len(refs))
    strategy = at_limit(name, len(hyps), len(refs))
    [one] = strategy.rank([minrisk.Segment(hyps, refs, "source", weights)])
    [other] = strategy.rank([minrisk.Segment(hyps, [refs[j] for j in turned], "source",
                                             weights[turned])])
    assert_close(other.utility, one.utility, scale=100)


@st.composite
def pools(draw: st.DrawFn) -> minrisk.Segment:
    """Samples that are the references, equal texts among them, some of which count for several."""
    texts = draw(st.lists(st.sampled_from(["", "a", "a cat", "the cat", "the cat sat", "dogs"]),
                          min_size=1, max_size=8))
    counts = draw(st.lists(st.integers(1, 3), min_size=len(texts), max_size=len(texts)))
    return minrisk.Segment(texts, source="a cat sat", counts=counts)


# whose counterpart is made for the counts of one segment
@pytest.mark.parametrize("name", sorted(LINES.keys() - {"universal-self-consistency"}))
@FEW
@given(segment=pools(), metric=kinds)
def test_at_its_limit_it_is_another_with_duplicates_among_the_samples(name, segment, metric):
    check_limit(name, segment, metric)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(segment=pools(), metric=kinds)
def test_counts_are_equal_copies_at_the_limit(name, segment, metric):
    copies = [text for text, count in zip(segment.hypotheses, segment.counts, strict=True)
              for _ in range(count)]
    repeated = minrisk.Segment(copies, source="a cat sat")
    one, other = (ranked(name, each, metric) for each in (segment, repeated))
    first = segment.counts.cumsum() - segment.counts
    assert_close(other.utility[first], one.utility, scale=100)
    assert copies[other.best] == segment.hypotheses[one.best]


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(segment=pools(), metric=kinds)
def test_equal_texts_are_interchangeable(name, segment, metric):
    """Also between the limits: all copies have the same utility, and the first is the best."""
    hyps, refs = len(segment.hypotheses), len(segment.references)
    [strategy] = with_metric(metric, between(name) if hyps > 3
                             else at_limit(name, hyps, refs))
    [ranking] = strategy.rank([segment])
    places = np.argsort(ranking.order)
    for text in set(segment.hypotheses):
        rows = [row for row, other in enumerate(segment.hypotheses) if other == text]
        np.testing.assert_array_equal(ranking.utility[rows], ranking.utility[rows[0]])
        assert np.all(np.diff(places[rows]) > 0) or name in SETS


# of which one of equally good hypotheses is chosen
@pytest.mark.parametrize("name", sorted({*NAMES} - {"universal-self-consistency"}))
@FEW
@given(segment=pools(), metric=kinds, data=st.data())
def test_the_order_of_samples_does_not_matter_at_the_limit(name, segment, metric, data):
    rows = np.array(data.draw(st.permutations(range(len(segment.hypotheses)))))
    turned = minrisk.Segment([segment.hypotheses[row] for row in rows], source="a cat sat",
                             counts=segment.counts[rows])
    one, other = ranked(name, segment, metric), ranked(name, turned, metric)
    assert_close(other.utility, one.utility[rows], scale=100)


def ranked(name: str, segment: minrisk.Segment, metric: object) -> minrisk.Ranking:
    """The ranking of a strategy at its limit."""
    [strategy] = with_metric(metric, at_limit(name, len(segment.hypotheses),
                                                        len(segment.references)))
    [ranking] = strategy.rank([segment])
    return ranking
