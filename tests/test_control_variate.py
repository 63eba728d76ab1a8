"""The control variate is unbiased whatever is drawn, and exact where everything is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minrisk
from generated import cases
from minrisk.strategies import control_variate
from minrisk.strategies.drawing import chances, drawn
from minrisk.testing import check_strategy

MASSES = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(lambda m: np.array(m) / sum(m))


@dataclass
class Plane:
    """tanh made linear around the mean."""

    hyps: np.ndarray
    centre: np.ndarray

    @property
    def mean(self):
        return np.tanh(self.centre)

    def at(self, refs):
        z = self.hyps[:, None] - refs[None]
        slope = 1 - np.tanh(self.centre) ** 2
        return self.mean[:, None] + slope[:, None] * (z - self.centre[:, None])


class Curved:
    """A metric that is not linear in its references, with a surrogate that is."""

    name = "curved"

    def features(self, texts):
        return np.array([t.count("a") - 0.5 * len(t) for t in texts])

    def scores(self, hyps, refs, source=None):
        return np.tanh(hyps[:, None] - refs[None])

    def vectors(self, features):
        return features[:, None]

    def surrogate(self, hyps, refs, mass, source=None):
        return Plane(hyps, hyps - refs @ mass)


def each_draw(chance):
    """Every order and every stretch of starting points, with how likely it is."""
    orders = list(permutations(range(chance.size)))
    for order in map(np.array, orders):
        ends = np.sort(np.concatenate([[0, 1], (-np.cumsum(chance[order])) % 1.0]))
        for low, high in pairwise(ends):
            if high - low > 1e-9:
                yield order, (low + high) / 2, (high - low) / len(orders)


class Fixed:
    """In place of a generator: a given order and start."""

    def __init__(self, order, start):
        self.permutation = lambda count: order
        self.random = lambda: start


@given(mass=MASSES, size=st.integers(0, 6))
def test_chances_follow_the_mass_up_to_certainty(mass, size):
    chance = chances(mass, size)
    assert chance.sum() == pytest.approx(min(size, mass.size))
    assert chance.max() <= 1
    free = chance < 1
    if size:
        np.testing.assert_allclose(chance[free] * mass[free].sum(), mass[free] * chance[free].sum())
        assert all(mass[~free].min(initial=1) >= m for m in mass[free])


@given(mass=MASSES, size=st.integers(1, 5))
def test_each_is_drawn_as_often_as_its_chance(mass, size):
    chance = chances(mass, size)
    often = np.zeros(mass.size)
    for order, start, likely in each_draw(chance):
        rows = drawn(chance, order, start)
        assert rows.size == min(size, mass.size)
        often[rows] += likely
    np.testing.assert_allclose(often, chance, atol=1e-6)


@given(case=cases(), size=st.integers(1, 4))
def test_its_mean_over_all_draws_is_exact(case, size):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    [pool] = minrisk.bind(Curved(), [segment])
    strategy = minrisk.ControlVariate(Curved(), size)
    mean = np.zeros(len(case.hyps))
    for order, start, likely in each_draw(chances(pool.references_once()[1], size)):
        fixed = Fixed(order, start)
        with patch.object(control_variate, "segment_rng", return_value=fixed):
            mean += likely * strategy.rank([segment])[0].utility
    np.testing.assert_allclose(mean, pool.utility(), rtol=1e-6, atol=1e-6)


def test_a_plain_mean_of_what_was_drawn_would_be_biased():
    """The planted fault that the test above is for: dividing by the number, not by the chance."""
    mass = np.array([0.7, 0.2, 0.1])
    missed = np.array([1.0, 5.0, -3.0])
    chance = chances(mass, 2)
    plain = sum(likely * missed[drawn(chance, order, start)].mean()
                for order, start, likely in each_draw(chance))
    assert abs(plain - missed @ mass) > 0.1


@given(case=cases(), exemplars=st.booleans(), seed=st.integers(0, 5))
def test_all_references_make_it_standard(case, exemplars, seed):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    strategy = minrisk.ControlVariate(Curved(), len(case.refs), exemplars, seed)
    [ranking], [exact] = strategy.rank([segment]), minrisk.Standard(Curved()).rank([segment])
    np.testing.assert_allclose(ranking.utility, exact.utility, rtol=1e-9, atol=1e-9)
    # texts at the same point are one exemplar
    assert ranking.pairs <= exact.pairs + len(set(case.hyps))
    if not exemplars:
        assert ranking.pairs == exact.pairs + len(set(case.hyps))


def test_an_exemplar_stands_for_its_cluster():
    refs, weights = ["", "a", "a" * 9, "a" * 10, "a" * 11], [1, 3, 1, 1, 1]
    segment = minrisk.Segment(["aa", "aaaaaaa"], refs, weights=weights)
    [ranking] = minrisk.ControlVariate(Curved(), 2, exemplars=True).rank([segment])
    metric, mass = Curved(), np.array(weights) / 7
    hyps, points = metric.features(segment.hypotheses), metric.features(refs)
    made = metric.surrogate(hyps, points, mass)
    near = points[[1, 3]]
    missed = (metric.scores(hyps, near) - made.at(near)) @ [4 / 7, 3 / 7]
    np.testing.assert_allclose(ranking.utility, made.mean + missed)


@given(case=cases())
def test_without_references_it_is_its_surrogate(case):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    [ranking] = minrisk.ControlVariate(Curved(), 0, exemplars=True).rank([segment])
    metric = Curved()
    weights = np.array(case.weights) / sum(case.weights)
    centre = metric.features(case.hyps) - metric.features(case.refs) @ weights
    np.testing.assert_allclose(ranking.utility, np.tanh(centre), atol=1e-9)
    assert ranking.pairs == len(set(case.hyps))


@given(segments=st.lists(cases(), min_size=1, max_size=3))
def test_it_keeps_the_contract(segments):
    check_strategy(minrisk.ControlVariate(Curved(), 2), [
        minrisk.Segment(c.hyps, c.refs, None, c.weights, i) for i, c in enumerate(segments)])


@given(case=cases())
def test_the_seed_decides_what_is_drawn(case):
    assume(len(set(case.hyps)) > 1)
    segment = minrisk.Segment([*case.hyps, "aaaa", "b"], case.refs * 3, None, case.weights * 3)
    runs = [minrisk.ControlVariate(Curved(), 1, seed=seed).rank([segment])[0] for seed in (3, 3)]
    np.testing.assert_array_equal(runs[0].utility, runs[1].utility)


def test_a_metric_without_a_surrogate_says_so():
    with pytest.raises(minrisk.InputError, match="'chrf' has no surrogate"):
        minrisk.decode(["a"], strategy="control-variate")
    with pytest.raises(minrisk.InputError, match="subset of -1"):
        minrisk.decode(["a"], strategy="control-variate", subset=-1)
