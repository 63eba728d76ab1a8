"""The control variate is its surrogate without pairs, exact with all, and unbiased in between."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import cases
from minrisk.strategies.race import CorrectedRace
from minrisk.testing import check_strategy
from project import ROOT, load_module
from small_metrics import Curved, Plane, many
from tolerance import assert_close


class Gentle(Curved):
    """Nearly linear, as a metric is whose references mean nearly the same."""

    def features(self, texts):
        return 0.1 * super().features(texts)


def race_over(metric, hyps, refs, rows) -> CorrectedRace:
    """After it met these references, of which all weigh the same."""
    [pool] = minrisk.bind(metric, [minrisk.Segment(hyps, refs)])
    others = np.setdiff1d(np.arange(len(refs)), rows)
    race = CorrectedRace(pool, pool.surrogate_mean(), np.concatenate([rows, others]))
    race.meet(len(rows))
    return race


@given(case=cases(), data=st.data())
def test_its_mean_over_all_choices_of_references_is_exact(case, data):
    hyps = list(dict.fromkeys(case.hyps))
    size = data.draw(st.integers(1, len(case.refs)))
    choices = [np.array(rows) for rows in combinations(range(len(case.refs)), size)]
    mean = np.mean([race_over(Curved(), hyps, case.refs, rows).utility for rows in choices], axis=0)
    assert_close(mean, minrisk.decode(hyps, case.refs, metric=Curved()).utility, scale=1)


def test_a_surrogate_whose_mean_is_another_would_be_biased():
    """The planted fault that the test above is for: a plane through another point."""
    class Shifted(Curved):
        def surrogate(self, hyps, refs, mass, source=None):
            return Plane(hyps, hyps - refs @ mass - 1)

    hyps, refs = ["a", "bb"], ["", "aaaa", "b"]
    [pool] = minrisk.bind(Shifted(), [minrisk.Segment(hyps, refs)])
    means = []
    for row in range(3):
        race = CorrectedRace(pool, pool.surrogate_mean(), np.roll(np.arange(3), -row))
        race.meet(1)
        means.append(race.utility)
    assert abs(np.mean(means, axis=0) - pool.utility()).max() > 0.1


def test_it_is_closer_than_scores_alone():
    hyps, refs = list(dict.fromkeys(many())), many(seed=1)
    exact = minrisk.decode(hyps, refs, metric=Gentle()).utility
    chosen = [np.random.default_rng(seed).permutation(len(refs))[:8] for seed in range(20)]
    corrected = [race_over(Gentle(), hyps, refs, rows).utility for rows in chosen]
    plain = [minrisk.decode(hyps, [refs[i] for i in rows], metric=Gentle()).utility
             for rows in chosen]
    assert np.std(corrected - exact) < np.std(plain - exact) / 2


@given(case=cases(), seed=st.integers(0, 5))
def test_all_pairs_make_it_standard(case, seed):
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    [ranking] = minrisk.ControlVariate(Curved(), 1.0, seed).rank([segment])
    [exact] = minrisk.Standard(Curved()).rank([segment])
    assert_close(ranking.utility, exact.utility, scale=1)
    np.testing.assert_array_equal(ranking.order, exact.order)
    assert ranking.pairs <= len(set(case.hyps)) * (1 + len(set(case.refs)))


def test_without_pairs_it_ranks_as_its_surrogate_does():
    hyps, refs = list(dict.fromkeys(many())), many(seed=1)
    [ranking] = minrisk.ControlVariate(Curved(), 1e-9).rank([minrisk.Segment(hyps, refs)])
    metric = Curved()
    mean = np.tanh(metric.features(hyps) - metric.features(refs).mean())
    np.testing.assert_array_equal(ranking.order, minrisk.Ranking.from_utility(mean).order)
    assert_close(ranking.utility[ranking.best], mean.max())
    assert ranking.pairs == len(hyps)


@pytest.mark.parametrize("budget", [0.02, 0.1, 0.4])
def test_a_budget_is_kept_and_spent_on_the_best(budget):
    hyps, refs = many(100), many(80, seed=1)
    distinct = len(set(hyps))
    [ranking] = minrisk.ControlVariate(Curved(), budget).rank([minrisk.Segment(hyps, refs)])
    assert distinct < ranking.pairs <= distinct + budget * distinct * len(refs)
    exact = minrisk.decode(hyps, refs, metric=Curved()).utility
    looked_at = ~np.isnan(ranking.utility)
    assert exact[looked_at].mean() > exact.mean()


@given(segments=st.lists(cases(), min_size=1, max_size=3))
def test_it_keeps_the_contract(segments):
    check_strategy(minrisk.ControlVariate(Curved(), 0.5), [
        minrisk.Segment(c.hyps, c.refs, None, c.weights, i) for i, c in enumerate(segments)])


def test_a_metric_without_a_surrogate_says_so():
    with pytest.raises(minrisk.InputError, match=r"surrogate .*'chrf'"):
        minrisk.decode(["a"], strategy="control-variate")
    with pytest.raises(minrisk.InputError, match=r"budget .* 0"):
        minrisk.decode(["a"], metric=Curved(), strategy="control-variate", budget=0)


def test_the_claims_of_the_experiment_are_made_of_its_results():
    folder = ROOT / "experiments" / "control-variate"
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for claim in load_module(folder / "claims.py").claims(found["methods"]).values():
        assert claim in readme
