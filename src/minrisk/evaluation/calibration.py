"""How well confidence signals separate right from wrong choices, and calibration of a signal.

Maps to probabilities are evaluated by two-fold cross-fitting: choices with even numbers by a map
fitted to the odd ones, and vice versa. Intervals are from a bootstrap over choices.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints, finite_numbers
from minrisk._core.calibration import (
    SIGNALS,
    Calibration,
    Signal,
    logistic,
    lowest_threshold,
    on_scale,
)
from minrisk._core.errors import InputError, Wording, unknown
from minrisk.evaluation.resampling import (
    RESAMPLES,
    Estimate,
    Verdicts,
    estimate,
    resampled_counts,
)
from minrisk.evaluation.validation import aligned
from minrisk.io.files import Input
from minrisk.io.store import write_text
from minrisk.io.text import FilePath

MIN_CHOICES = 20  # enough for two halves and five bins
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)  # error rates for which a report has thresholds
BINS = 5
_RIDGE = 1e-6  # gives a signal without variance the slope 0
_STEPS = 100  # limit of Newton steps


@dataclass(frozen=True)
class SignalQuality:
    """How well a signal separates right from wrong choices."""

    name: str
    missing: int  # choices without the signal, which rank as the least certain
    auroc: Estimate  # probability that a right choice ranks above a wrong one
    aurc: Estimate  # area under the risk-coverage curve
    ece: Estimate  # expected calibration error of the map
    brier: Estimate  # mean squared error of the map
    curve: list[tuple[float, float]] = field(repr=False)  # (coverage, error)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Guarantee:
    """The threshold for a target error rate, with its cross-fitted coverage and error."""

    max_error: float
    threshold: float | None  # None: the choices support no threshold for the target
    answered: float  # coverage: share above the threshold, which is fitted on the other half
    error: float | None  # error rate of the answered choices; None if there are none

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bin:
    """Choices with adjacent calibrated probabilities."""

    probability: float
    right: Estimate  # share of right choices


@dataclass(frozen=True)
class CalibrationReport:
    """The result of `minrisk.calibrate`: the calibration, and how reliable it is.

    `str` returns the tables of `minrisk calibrate`.

    >>> import minrisk
    >>> lines = [{"utility": n / 40, "text": "a", "gold": "a" if n > 9 else "b"} for n in range(40)]
    >>> found = minrisk.calibrate(lines)
    >>> found.calibration.signal, found.signals[0].auroc.value
    ('utility', 1.0)
    """

    calibration: Calibration
    right: float  # share of right choices
    signals: Sequence[SignalQuality]
    guarantees: Sequence[Guarantee]
    bins: Sequence[Bin] = field(repr=False)
    left_out: int = 0  # number of failed lines

    @property
    def choices(self) -> int:
        """The number of choices to which it was fitted."""
        return len(self.calibration.right)

    def distinct_signals(self, most: int) -> list[SignalQuality]:
        """The calibrated signal and the best others, without those that rank choices identically.
        """
        ranked = sorted(self.signals, key=lambda one: (one.name != self.calibration.signal,
                                                       one.aurc.value))
        distinct = {tuple(one.curve): one for one in reversed(ranked)}  # keeps the first of equals
        return list(reversed(distinct.values()))[:most]

    def as_json(self) -> dict[str, Any]:
        """The dictionary that `save` writes and `minrisk calibrate --format json` prints."""
        report = {"choices": self.choices, "right": self.right, "left_out": self.left_out,
                  "signals": [one.as_json() for one in self.signals],
                  "guarantees": [one.as_json() for one in self.guarantees],
                  "bins": [asdict(one) for one in self.bins]}
        fields: dict[str, Any] = finite_numbers(
            json.loads(json.dumps(self.calibration.as_json() | {"report": report})))
        return fields

    def save(self, path: FilePath) -> None:
        """Write a file for the option `calibration=`."""
        write_text(os.fspath(path), json.dumps(self.as_json()) + "\n")

    def plot(self, path: FilePath) -> None:
        """Plot the map and the risk-coverage curves, as .png, .svg or .pdf (`minrisk[plot]`)."""
        from minrisk.evaluation.figure import check_figure, plot_calibration

        check_figure(os.fspath(path))
        plot_calibration(self, os.fspath(path))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from aligned([("signal", "AUROC", "AURC", "ECE", "Brier"), *(
            (f"{one.name}{' *' * (one.name == self.calibration.signal)}", str(one.auroc),
             str(one.aurc), str(one.ece), str(one.brier)) for one in self.signals)])
        yield (f"\n{self.choices} choices, {self.right:.1%} of them right; 95% intervals. * is "
               "calibrated. ECE (five bins of equal\nsize) and Brier score: of a map fitted on one "
               "half, on the other.\n")
        yield from aligned([("target error", "threshold", "answered", "error"), *(
            (f"{one.max_error:.0%}", "none" if one.threshold is None else f"{one.threshold:.4g}",
             f"{one.answered:.0%}", "" if one.error is None else f"{one.error:.1%}")
            for one in self.guarantees)])
        yield ("\nThe error above a threshold is at most the target error with a probability of "
               f"{self.calibration.level:.0%}.\nanswered, error: of the other half, by the "
               "threshold of one half.")


def read_calibration(path: str) -> Calibration:
    """Read the calibration from a file that `minrisk calibrate` wrote.

    Raises:
        InputError: if the file cannot be read, or is not a calibration.

    >>> import minrisk, tempfile
    >>> lines = [{"utility": n / 40, "text": "a", "gold": "a" if n > 9 else "b"} for n in range(40)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     minrisk.calibrate(lines).save(f"{folder}/calibration.json")
    ...     made = read_calibration(f"{folder}/calibration.json")
    >>> made.probability(0.9) > 0.9
    True
    """
    source = Input(path)
    try:
        return Calibration.from_json(json.loads("\n".join(source.texts())))
    except (ValueError, RecursionError):
        raise InputError(f"{source.name}: found no calibration; expected what `minrisk calibrate` "
                         "wrote") from None


def calibrated(columns: Mapping[str, Floats], right: Verdicts, name: str | None = None,
               level: float = 0.5, signature: str | None = None,
               left_out: int = 0, resamples: int = RESAMPLES) -> CalibrationReport:
    """Fit a calibration to choices that are known to be right or wrong, and evaluate it.

    Args:
        columns: (N,) the values of each signal, NaN where a choice has none.
        right: (N,) whether each choice is right.
        name: the signal to calibrate; default: the first of `SIGNALS` that is available, so that
            the selection does not depend on `right`.
        level: probability with which the error above a threshold is at most the target.
        signature: how the choices were made, if known.
        left_out: number of choices that could not be judged.
        resamples: number of bootstrap samples for the intervals.

    Raises:
        InputError: if the choices are too few, all right or all wrong, or lack the signal.
    """
    _check(right)
    available = {signal.name: signal.in_order(columns[signal.name]) for signal in SIGNALS.values()
                 if signal.name in columns and np.isfinite(columns[signal.name]).any()}
    if name is not None and name not in available:
        raise unknown("signal", name, available)
    if not available:
        raise InputError("found no confidence signal; expected the output of a strategy with "
                         "utilities")
    counts = resampled_counts(right.size, resamples)
    chosen = next(iter(available)) if name is None else name
    signals = [_quality(SIGNALS[own], columns[own], values, right, counts)
               for own, values in available.items()]
    values = available[chosen]
    slope, intercept = fit_map(on_scale(SIGNALS[chosen], values, right.size), right)
    order = np.argsort(-values, kind="stable")
    calibration = Calibration(chosen, tuple(values[order].tolist()),
                              tuple(right[order].tolist()), slope, intercept, level, signature)
    return CalibrationReport(
        calibration, float(right.mean()), signals,
        [_guarantee(values, right, error, level) for error in ERRORS],
        _bins(other_half(SIGNALS[chosen], values, right), right, counts), left_out)


def _check(right: Verdicts) -> None:
    if right.size < MIN_CHOICES:
        raise InputError(f"found {right.size} choices with a known result (right or wrong); at "
                         f"least {MIN_CHOICES}")
    if right.all() or not right.any():
        raise InputError(Wording("all {count} choices are {word}, but a calibration needs both "
                                 "right and wrong ones; check gold= and threshold=, or use harder "
                                 "problems", count=right.size,
                                 word="right" if right.all() else "wrong"))


def halves(count: int) -> list[tuple[Ints, Ints]]:
    """The two folds as (fitted, tested): choices with even and odd numbers, and vice versa."""
    even, odd = np.arange(0, count, 2), np.arange(1, count, 2)
    return [(even, odd), (odd, even)]


def other_half(signal: Signal, values: Floats, right: Verdicts) -> Floats:
    """(N,) the probability of each choice by the map that was fitted to the other half."""
    probabilities = np.empty(right.size)
    for fitted, tested in halves(right.size):
        scaled = on_scale(signal, values, fitted.size)
        slope, intercept = fit_map(scaled[fitted], right[fitted])
        probabilities[tested] = logistic(intercept + slope * scaled[tested])
    return probabilities


def fit_map(x: Floats, right: Verdicts) -> tuple[float, float]:
    """The slope and intercept of a logistic map (Platt scaling); the slope is not negative.

    The smoothed targets of Platt (1999) keep the fit finite if the classes are separable.

    >>> slope, intercept = fit_map(np.repeat([0.0, 1.0], 500), np.arange(1000) % 4 > 0)
    >>> round(slope, 3), round(float(logistic(np.array([intercept]))[0]), 2)
    (0.0, 0.75)
    """
    ours, theirs = int(right.sum()), int((~right).sum())
    target = np.where(right, (ours + 1) / (ours + 2), 1 / (theirs + 2))
    centre, scale = float(x.mean()), float(x.std()) or 1.0
    design = np.stack([np.ones_like(x), (x - centre) / scale])
    theta = np.zeros(2)
    loss = _loss(theta, design, target)
    for _ in range(_STEPS):
        p = logistic(theta @ design)
        gradient = design @ (p - target) + _RIDGE * theta
        hessian = (design * np.maximum(p * (1 - p), 1e-12)) @ design.T + _RIDGE * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while (new := _loss(theta - step, design, target)) > loss and np.abs(step).max() > 1e-12:
            step /= 2
        if np.abs(step).max() <= 1e-10:
            break
        theta, loss = theta - step, new
    if theta[1] <= 0:  # the signal is uninformative: all choices get the same probability
        share = float(target.mean())
        return 0.0, float(np.log(share / (1 - share)))
    slope = float(theta[1] / scale)
    return slope, float(theta[0] - slope * centre)


def _loss(theta: Floats, design: Floats, target: Floats) -> float:
    z = theta @ design
    return float((np.logaddexp(0, z) - target * z).sum() + _RIDGE * (theta @ theta) / 2)


# statistics of resamples; `counts` (B, N): how often each choice is in each of them


@dataclass(frozen=True)
class _Ordered:
    """Choices by descending value, in groups of equal values."""

    order: Ints
    starts: Ints  # (G,) index of the first choice of each group

    @classmethod
    def by(cls, values: Floats) -> _Ordered:
        order = np.argsort(-values, kind="stable")
        ordered = values[order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        return cls(order, np.flatnonzero(is_first))

    def sums(self, values: Floats) -> Floats:
        """(B, G) sums over the groups."""
        summed: Floats = np.add.reduceat(values[:, self.order], self.starts, axis=1)
        return summed


def auroc(values: Floats, right: Verdicts, counts: Floats) -> Floats:
    """(B,) the probability that a right choice has a larger value than a wrong one.

    >>> auroc(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]), np.ones((1, 3)))
    array([0.5])
    """
    groups = _Ordered.by(values)
    ours, theirs = groups.sums(counts * right), groups.sums(counts * ~right)
    below = theirs.sum(axis=1, keepdims=True) - np.cumsum(theirs, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        areas: Floats = ((ours * (below + theirs / 2)).sum(axis=1)
                         / (ours.sum(axis=1) * theirs.sum(axis=1)))
    return areas


def aurc(values: Floats, right: Verdicts, counts: Floats) -> Floats:
    """(B,) area under the risk-coverage curve: mean over k of the top k's error (Geifman 2019).

    Ties are averaged over random orders.

    >>> aurc(np.array([2.0, 1.0]), np.array([True, False]), np.ones((1, 2)))
    array([0.25])
    """
    groups = _Ordered.by(values)
    size, wrong = groups.sums(counts), groups.sums(counts * ~right)
    before, errors = np.cumsum(size, axis=1) - size, np.cumsum(wrong, axis=1) - wrong
    total = round(float(counts[0].sum()))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, total + 1))])
    first, last = before.astype(np.intp), (before + size).astype(np.intp)
    rate = wrong / np.maximum(size, 1)
    areas = wrong + (errors - rate * before) * (harmonic[last] - harmonic[first])
    area: Floats = areas.sum(axis=1) / total
    return area


def brier(probabilities: Floats, right: Verdicts, counts: Floats) -> Floats:
    """(B,) Brier score: the mean squared difference of probability and outcome."""
    error: Floats = counts @ (probabilities - right) ** 2 / counts.sum(axis=1)
    return error


def ece(probabilities: Floats, right: Verdicts, counts: Floats) -> Floats:
    """(B,) expected calibration error, with bins of equal size."""
    gaps = np.stack([counts[:, rows] @ (probabilities - right)[rows]
                     for rows in _equal_bins(probabilities)])
    error: Floats = np.abs(gaps).sum(axis=0) / counts.sum(axis=1)
    return error


def _equal_bins(probabilities: Floats) -> list[Ints]:
    return np.array_split(np.argsort(probabilities, kind="stable"), BINS)


def _quality(signal: Signal, given: Floats, values: Floats, right: Verdicts,
             counts: Ints) -> SignalQuality:
    probabilities = other_half(signal, values, right)
    return SignalQuality(
        signal.name, int((~np.isfinite(given)).sum()), estimate(auroc, values, right, counts),
        estimate(aurc, values, right, counts), estimate(ece, probabilities, right, counts),
        estimate(brier, probabilities, right, counts), risk_coverage(values, right))


def risk_coverage(values: Floats, right: Verdicts) -> list[tuple[float, float]]:
    """(coverage, error) at each threshold, from the highest down."""
    groups, one = _Ordered.by(values), np.ones((1, right.size))
    size, wrong = (np.cumsum(groups.sums(weights)[0]) for weights in (one, one * ~right))
    return list(zip((size / right.size).tolist(), (wrong / size).tolist(), strict=True))


def _bins(probabilities: Floats, right: Verdicts, counts: Ints) -> list[Bin]:
    def share(rows: Ints) -> Estimate:
        inside = np.isin(np.arange(right.size), rows)
        return estimate(lambda values, is_right, drawn: (drawn * inside) @ is_right
                        / np.maximum((drawn * inside).sum(axis=1), 1), probabilities, right, counts)

    return [Bin(float(probabilities[rows].mean()), share(rows))
            for rows in _equal_bins(probabilities)]


def _guarantee(values: Floats, right: Verdicts, max_error: float, level: float) -> Guarantee:
    whole = lowest_threshold(values, right, max_error, level)
    is_answered = np.zeros(right.size, bool)
    for fitted, tested in halves(right.size):
        threshold = lowest_threshold(values[fitted], right[fitted], max_error, level)
        if threshold is not None:
            is_answered[tested] = values[tested] >= threshold
    error = float((~right[is_answered]).mean()) if is_answered.any() else None
    return Guarantee(max_error, whole, float(is_answered.mean()), error)
