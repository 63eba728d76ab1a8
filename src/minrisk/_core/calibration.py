"""From a signal of confidence to the probability of being right, and to when to abstain.

A calibration holds what is known of the choices that it was made from: how sure each was, and
whether it was right. The map is a logistic function of two parameters (Platt 1999), which few
choices are enough for. The threshold is the lowest at which the choices bound the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.segment import Ranking

KIND = "minrisk calibration"
_DIGITS = 9  # after the point: values that are closer are equal, however they were added up
_START = 8  # the first threshold that is tested has an eighth of all choices above it


@dataclass(frozen=True)
class Signal:
    """A number of the output that says how sure a choice is.

    >>> import minrisk
    >>> ranking = minrisk.decode(["yes", "yes", "no"], metric="exact-match")
    >>> round(Signal("utility").value_in(ranking), 2)
    0.67
    """

    name: str  # of the output's column
    is_share: bool = False  # from 0 to 1
    is_doubt: bool = False  # low where a choice is sure

    def value_in(self, ranking: Ranking) -> float:
        """Its value, NaN where the ranking has none."""
        part, _, name = self.name.rpartition(".")
        if not part:
            return float(ranking.utility[ranking.best])
        value = getattr(getattr(ranking, part), name, None)
        return math.nan if value is None else float(value)

    def in_order(self, values: Floats) -> Floats:
        """The values so that larger ones are surer; a choice without one is the least sure."""
        signed = np.round(-values if self.is_doubt else values, _DIGITS)
        known = signed[np.isfinite(signed)]
        least = 0.0 if self.is_share and not self.is_doubt else float(known.min(initial=np.inf))
        return np.where(np.isfinite(signed), signed, least if math.isfinite(least) else 0.0)


# the first that an output has is the one that is calibrated, unless another is named
SIGNALS = {signal.name: signal for signal in (
    Signal("confidence.probability", is_share=True),
    Signal("confidence.share", is_share=True),
    Signal("uncertainty.largest", is_share=True),
    Signal("uncertainty.entropy", is_doubt=True),
    Signal("uncertainty.utility"),
    Signal("uncertainty.clusters", is_doubt=True),
    Signal("uncertainty.unanswered", is_share=True, is_doubt=True),
    Signal("confidence.disagreement", is_share=True, is_doubt=True),
    Signal("confidence.margin"),
    Signal("confidence.gain"),
    Signal("confidence.cocoa", is_doubt=True),
    Signal("confidence.logprob"),
    Signal("confidence.lowest_logprob"),
    Signal("confidence.tail_logprob"),
    Signal("confidence.certainty"),
    Signal("utility"),
)}


@dataclass(frozen=True)
class Calibration:
    """The probability that a choice is right, by a confidence signal (see `minrisk.calibrate`).

    Args:
        signal: the name of the signal.
        values: of the signal, of each choice that the calibration was made from; larger is surer.
        right: whether each of these was right.
        slope: of the map, from the signal (a share: from its log-odds) to log-odds of being right.
        intercept: of the map.
        level: probability with which the error above a threshold is no more than wanted.
        signature: how the choices were made; None if that is not known.

    >>> made = Calibration("utility", (3.0, 2.0, 1.0), (True, True, False), 2.0, -3.0)
    >>> round(made.probability(2.0), 2)
    0.73
    """

    signal: str
    values: tuple[float, ...]
    right: tuple[bool, ...]
    slope: float
    intercept: float
    level: float = 0.5
    signature: str | None = None

    def probability(self, value: float) -> float:
        """The probability that a choice with this value of the signal is right."""
        [found] = self.probabilities(np.array([value]))
        return float(found)

    def probabilities(self, values: Floats) -> Floats:
        """(N,) of several choices."""
        scaled = on_scale(self._signal, self._in_order(values), len(self.values))
        return logistic(self.intercept + self.slope * scaled)

    def is_answered(self, value: float, threshold: float) -> bool:
        """Whether a choice with this value of the signal is at or above the threshold.

        A choice of which the signal is unknown is not, since nothing shows how sure it is.
        """
        [found] = self._in_order(np.array([value]))
        return math.isfinite(value) and bool(found >= round(threshold, _DIGITS))

    def threshold(self, max_error: float) -> float:
        """The lowest value, larger being surer, above which the error is at most this one.

        Raises:
            InputError: if the choices of the calibration are too few or too often wrong for it.
        """
        lowest = lowest_threshold(np.array(self.values), np.array(self.right), max_error,
                                  self.level)
        if lowest is None:
            least = fewest(max_error, self.level)
            raise InputError(Wording(
                "the calibration cannot guarantee an error of at most {max_error:.4g}: of its "
                "{count} choices, the most confident ones are too few or too often wrong (at "
                "least {least} without an error are needed); calibrate with more choices, or "
                "raise max_error=", max_error=max_error, count=len(self.values), least=least))
        return lowest

    def as_json(self) -> dict[str, Any]:
        """The fields of its file."""
        return {"kind": KIND} | {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """From the fields of its file.

        Raises:
            InputError: if they are none of a calibration.
        """
        try:
            if content["kind"] != KIND:
                raise ValueError
            made = cls(str(content["signal"]), tuple(map(_number, content["values"])),
                       tuple(map(_verdict, content["right"])), _number(content["slope"]),
                       _number(content["intercept"]), _number(content["level"]),
                       content["signature"])
            if (made.signal not in SIGNALS or not isinstance(made.signature, str | None)
                    or not 0 < made.level < 1 or not made.values
                    or len(made.values) != len(made.right)):
                raise ValueError
        except (ValueError, TypeError, LookupError, OverflowError):
            raise InputError("found no calibration; expected what `minrisk calibrate` "
                             "wrote") from None
        return made

    @property
    def _signal(self) -> Signal:
        return SIGNALS[self.signal]

    @lazy
    def _least(self) -> float:
        return 0.0 if self._signal.is_share and not self._signal.is_doubt else min(self.values)

    def _in_order(self, values: Floats) -> Floats:
        """Values so that larger ones are surer; an unknown one is as the least sure that was seen.
        """
        signed = np.round(-values if self._signal.is_doubt else values, _DIGITS)
        return np.where(np.isfinite(signed), signed, self._least)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _verdict(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def on_scale(signal: Signal, values: Floats, count: int) -> Floats:
    """Ordered values as the logistic map takes them: shares as log-odds, which are finite.

    So many choices tell no probability from 0 or 1 that is closer to it than 1 / (count + 2).
    """
    if not signal.is_share:
        return values
    share = np.clip(1 + values if signal.is_doubt else values, 1 / (count + 2),
                    1 - 1 / (count + 2))
    log_odds: Floats = np.log(share / (1 - share))
    return log_odds


def logistic(x: Floats) -> Floats:
    probability: Floats = 0.5 * (1 + np.tanh(0.5 * x))  # without overflow
    return probability


def fewest(max_error: float, level: float) -> int:
    """How many choices without an error show that the error is at most this one."""
    return max(1, math.ceil(math.log1p(-level) / math.log1p(-max_error)))


def lowest_threshold(values: Floats, right: Any, max_error: float, level: float) -> float | None:
    """The lowest threshold above which the error is at most this one, with this probability.

    Thresholds are tested from the surest on, and the first that fails ends the search: so all tests
    together are wrong no more often than one (fixed-sequence testing; Angelopoulos et al. 2021).
    The first threshold does not depend on what is right, and has as many choices above it as the
    exact binomial test needs without an error. The tests are binomial tests with mid-p values
    (Lancaster 1961): with exact ones, which are conservative for few choices, an error would be
    lower than wanted far more often than higher at a level of 0.5. A single test with mid-p values
    may exceed the level, so the highest threshold that counts must pass an exact test.

    >>> values, right = np.arange(100.0), np.arange(100) >= 30
    >>> lowest_threshold(values, right, max_error=0.1, level=0.9)
    26.0
    """
    order = np.argsort(-values, kind="stable")
    ordered, wrong = values[order], np.cumsum(~np.asarray(right, bool)[order])
    is_last = np.append(ordered[:-1] != ordered[1:], True)  # of equal values
    start = max(fewest(max_error, level), values.size // _START)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, values.size + 1)))])
    lowest = None
    for place in np.flatnonzero(is_last).tolist():
        if place + 1 < start:
            continue
        exact, mid = _p_values(int(wrong[place]), place + 1, max_error, log_factorials)
        if mid > 1 - level:
            break
        if lowest is not None or exact <= 1 - level:
            lowest = float(ordered[place])
    return lowest


def _p_values(most: int, count: int, chance: float, log_factorials: Floats) -> tuple[float, float]:
    """The probability of at most so many of `count` events with this chance, and the mid-p value:
    that of fewer, and half that of so many.
    """
    k = np.arange(most + 1)
    masses = np.exp(log_factorials[count] - log_factorials[k] - log_factorials[count - k]
                    + k * math.log(chance) + (count - k) * math.log1p(-chance))
    exact = float(masses.sum())
    return exact, exact - float(masses[-1]) / 2
