"""Statistics of confidence, the map to probabilities, and thresholds with a guarantee."""

from __future__ import annotations

import numpy as np
import pytest

import minrisk
from minrisk._core.calibration import SIGNALS, fewest, lowest_threshold, on_scale
from minrisk.evaluation import calibration as own
from tolerance import assert_close

SHARE = SIGNALS["confidence.share"]
CASES = range(8)


def drawn(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Values with ties, and what is right more often where they are larger."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 17, count) / 16
    return values, rng.random(count) < values


def once(count: int) -> np.ndarray:
    return np.ones((1, count))


@pytest.mark.parametrize("seed", CASES)
def test_auroc_is_a_plain_count_of_pairs(seed):
    values, right = drawn(seed)
    wins = [(a > b) + 0.5 * (a == b) for a in values[right] for b in values[~right]]
    assert_close(own.auroc(values, right, once(60)), [np.mean(wins)])


@pytest.mark.parametrize("seed", CASES)
def test_aurc_is_the_mean_over_random_orders_of_ties(seed):
    values, right = drawn(seed, 7)
    values = np.ceil(values * 3)
    rng, found = np.random.default_rng(seed), []
    for _ in range(4000):
        order = np.lexsort((rng.random(7), -values))
        found.append(np.mean(np.cumsum(~right[order]) / np.arange(1, 8)))
    expected = np.mean(found)
    assert abs(own.aurc(values, right, once(7))[0] - expected) <= 5 * np.std(found) / 63 + 1e-12


@pytest.mark.parametrize("statistic", [own.auroc, own.aurc])
def test_ranks_are_all_that_counts(statistic):
    values, right = drawn(0)
    for changed in (np.log(values), values**3 - 5, 100 * values):
        assert_close(statistic(changed, right, once(60)), statistic(values, right, once(60)))


@pytest.mark.parametrize("statistic", [own.auroc, own.aurc, own.brier])
def test_counts_are_repetitions(statistic):
    values, right = drawn(1)
    times = np.random.default_rng(1).integers(0, 4, 60)
    rows = np.repeat(np.arange(60), times)
    assert_close(statistic(values, right, times[None].astype(float)),
                 statistic(values[rows], right[rows], once(rows.size)))


def test_probabilities_that_are_shares_of_right_ones_have_no_calibration_error():
    probabilities = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 10)
    right = np.arange(50) % 10 < np.repeat([1, 3, 5, 7, 9], 10)
    assert own.ece(probabilities, right, once(50)) < 1e-12
    assert_close(own.ece(probabilities[::-1], right, once(50)), [np.mean([0.8, 0.4, 0, 0.4, 0.8])])
    assert_close(own.brier(probabilities, right, once(50)),
                 [np.mean(probabilities * (1 - probabilities))])


def test_the_map_finds_the_probabilities_that_made_the_choices():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50_000)
    right = rng.random(x.size) < 1 / (1 + np.exp(-(1.5 * x - 0.5)))
    slope, intercept = own.fit_map(x, right)
    assert abs(slope - 1.5) < 0.1
    assert abs(intercept + 0.5) < 0.1


@pytest.mark.parametrize("seed", CASES)
def test_the_map_is_at_the_minimum_of_its_loss(seed):
    values, right = drawn(seed)
    found = np.array(own.fit_map(values, right))
    target = np.where(right, (right.sum() + 1) / (right.sum() + 2), 1 / ((~right).sum() + 2))

    def loss(slope, intercept):
        z = slope * values + intercept
        return (np.logaddexp(0, z) - target * z).sum()

    near = [loss(*(found + step)) for step in np.random.default_rng(0).normal(0, 0.05, (50, 2))]
    assert loss(*found) <= min(near)


def test_what_separates_right_from_wrong_still_has_a_map():
    x = np.arange(40.0)
    slope, intercept = own.fit_map(x, x >= 20)
    assert 0 < slope < np.inf
    assert np.isfinite(intercept)


def test_a_signal_that_misleads_gives_all_choices_the_same_probability():
    x = np.arange(40.0)
    slope, _ = own.fit_map(-x, (x >= 20) ^ (x % 5 == 0))
    assert slope == 0


def test_shares_at_the_ends_have_finite_log_odds():
    assert np.isfinite(on_scale(SHARE, np.array([0.0, 0.5, 1.0]), 50)).all()


def worlds():
    """Errors by rank from the surest on, falling with the signal, and how many are at most 10%."""
    place = np.arange(20_000) / 20_000
    return {"steep": 1 / (1 + np.exp(8 * (0.5 - place))), "gentle": 0.25 * place,
            "hopeless": np.full(place.size, 0.2), "at the edge": np.full(place.size, 0.101)}


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("name", worlds())
def test_the_error_above_a_threshold_is_the_wanted_one_as_often_as_is_said(name, level):
    chance = worlds()[name]
    mean = np.cumsum(chance) / np.arange(1, chance.size + 1)
    rng, broken, rounds = np.random.default_rng(0), 0, 400
    for _ in range(rounds):
        places = rng.integers(chance.size, size=150)
        right = rng.random(150) >= chance[places]
        threshold = lowest_threshold(-places.astype(float), right, 0.1, level)
        broken += threshold is not None and mean[int(-threshold)] > 0.1
    allowed = 1 - level
    assert broken / rounds <= allowed + 3 * np.sqrt(allowed * level / rounds)


@pytest.mark.parametrize(("max_error", "level", "count"), [(0.1, 0.5, 100), (0.2, 0.8, 100)])
def test_the_level_holds_where_all_choices_are_just_too_often_wrong(max_error, level, count):
    """At numbers of choices at which a test with mid-p values alone would break it."""
    rng, rounds = np.random.default_rng(1), 1000
    values = np.arange(float(count))
    broken = sum(lowest_threshold(values, rng.random(count) >= max_error, max_error, level)
                 is not None for _ in range(rounds))
    allowed = 1 - level
    assert broken / rounds <= allowed + 3 * np.sqrt(allowed * level / rounds)


def test_a_threshold_takes_equal_values_together():
    values = np.repeat([3.0, 2.0, 1.0], 40)
    right = np.arange(120) < 78
    assert lowest_threshold(values, right, 0.1, 0.9) == 2.0


def test_values_that_differ_by_rounding_are_equal():
    right = np.arange(60) % 3 > 0
    values = np.where(right, 0.3, 0.1 + 0.2)
    found = own.calibrated({"confidence.tail_logprob": -values}, right)
    assert found.signals[0].auroc.value == 0.5
    assert found.calibration.threshold(0.4) == -0.3
    for value in (0.3, 0.1 + 0.2):
        assert found.calibration.is_answered(-value, -0.3)


def test_a_choice_without_the_signal_is_not_answered():
    """Also where all choices that have it are."""
    made = minrisk.Calibration("confidence.logprob", (-0.1, -0.2, -0.3), (True,) * 3, 1.0, 0.0)
    least = made.threshold(0.3)
    assert made.is_answered(-0.3, least)
    assert not made.is_answered(np.nan, least)


def test_few_choices_show_no_small_error():
    least = fewest(0.1, 0.95)
    assert 0.9**least <= 0.05 < 0.9 ** (least - 1)
    for count, found in ((least - 1, None), (least, 0.0)):
        values = np.arange(float(count))
        assert lowest_threshold(values, np.ones(count, bool), 0.1, 0.95) == found


def test_the_first_signal_is_calibrated_whatever_is_right():
    values, right = drawn(0)
    best = right + np.linspace(0, 0.1, 60)
    found = own.calibrated({"confidence.share": values, "utility": best}, right)
    assert found.calibration.signal == "confidence.share"
    assert [one.name for one in found.signals] == ["confidence.share", "utility"]
    assert own.calibrated({"confidence.share": values, "utility": best}, right,
                          "utility").calibration.signal == "utility"


def test_a_doubt_is_a_signal_the_other_way_round():
    values, right = drawn(0)
    found = own.calibrated({"utility": values, "uncertainty.entropy": -values}, right).signals
    assert found[0].auroc == found[1].auroc
    assert found[0].ece == found[1].ece


def test_a_choice_without_the_signal_is_the_least_sure():
    values, right = drawn(0)
    missing = values.copy()
    missing[:5], right[:5] = np.nan, False
    [found] = own.calibrated({"confidence.share": missing}, right).signals
    assert found.missing == 5
    zeros = np.where(np.isnan(missing), 0, missing)
    assert_close(found.auroc.value, own.auroc(zeros, right, once(60))[0])


def test_intervals_cover_the_value_and_are_the_same_again():
    values, right = drawn(3)
    one, again = (own.calibrated({"utility": values}, right) for _ in range(2))
    assert one.as_json() == again.as_json()
    [found] = one.signals
    for part in (found.auroc, found.aurc, found.brier):
        assert part.low < part.value < part.high


def test_the_map_is_judged_on_the_half_that_it_has_not_seen():
    values, right = drawn(0)
    probabilities = own.other_half(SHARE, values, right)
    changed = right.copy()
    changed[::2] = ~changed[::2]
    assert_close(own.other_half(SHARE, values, changed)[::2], probabilities[::2])


@pytest.mark.parametrize(("right", "message"), [
    (np.ones(30, bool), "30 .* right"),
    (np.zeros(30, bool), "30 .* wrong"),
    (np.arange(12) < 6, "12 .* 20"),
])
def test_choices_that_tell_nothing_are_refused(right, message):
    with pytest.raises(minrisk.InputError, match=message):
        own.calibrated({"utility": np.arange(float(right.size))}, right)


def test_a_signal_that_is_not_there_is_named():
    values, right = drawn(0)
    nothing = {"utility": values, "confidence.share": np.full(60, np.nan)}
    with pytest.raises(minrisk.InputError, match=r"confidence\.share"):
        own.calibrated(nothing, right, "confidence.share")


@pytest.mark.parametrize("content", [
    "", "[]", "{}", "null", '{"kind": "minrisk calibration"}', "[" * 100_000,
    '{"kind": "minrisk calibration", "signal": "utility", "values": [1], "right": ["no"], '
    '"slope": 1, "intercept": 0, "level": 0.5, "signature": null}',
    '{"kind": "minrisk calibration", "signal": "utility", "values": [1], "right": [], '
    '"slope": 1, "intercept": 0, "level": 0.5, "signature": null}',
    '{"kind": "minrisk calibration", "signal": "utility", "values": [NaN], "right": [true], '
    '"slope": 1, "intercept": 0, "level": 0.5, "signature": null}'])
def test_another_file_is_no_calibration(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(minrisk.InputError, match="calibration"):
        minrisk.read_calibration(str(path))


def test_a_calibration_is_read_as_it_was_written(tmp_path):
    values, right = drawn(0)
    report = own.calibrated({"confidence.share": values}, right, signature="strategy:standard")
    report.save(tmp_path / "c.json")
    assert minrisk.read_calibration(str(tmp_path / "c.json")) == report.calibration


def test_the_report_has_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    values, right = drawn(0)
    report = own.calibrated({"confidence.share": values, "utility": values}, right)
    report.plot(tmp_path / "one.svg")
    report.plot(tmp_path / "two.svg")
    assert "<svg" in (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_figures_have_each_ranking_of_choices_once():
    values, right = drawn(0)
    columns = {"confidence.share": values, "uncertainty.largest": values, "utility": -values}
    report = own.calibrated(columns, right, "utility")
    assert [one.name for one in report.distinct_signals(6)] == ["utility", "confidence.share"]
