"""A calibrated confidence: how probable it is that a choice is right, and when to abstain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from minrisk._core.calibration import SIGNALS, Calibration
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.lazy import lazy
from minrisk._core.signature import choose_alike, signature
from minrisk._core.strategy import MeasuringStrategy, Strategy, StrategyWrapper
from minrisk.plugins import Pool, Ranking, option
from minrisk.strategies.confident import Confident
from minrisk.strategies.uncertain import Uncertain


def _calibration_option() -> Any:
    def convert(config: Any, name: str, value: Any) -> Calibration:
        if not isinstance(value, Calibration):
            raise InputError(f"{name} must be the calibration of a report of minrisk.calibrate, or "
                             f"what minrisk.read_calibration finds in a file; got {brief(value)}")
        return value

    return field(metadata={"convert": convert, "affects_results": False})


@dataclass(frozen=True)
class Calibrated(MeasuringStrategy):
    """Adds the calibrated probability that the choice of another strategy is right.

    The probability is that of a calibration, by the signal that it was made for; whatever it needs
    of `Confident` and `Uncertain` is measured too.

    Args:
        strategy: the strategy whose choice is judged.
        calibration: what `minrisk.calibrate` found, or the file of it that was read.
        max_error: share of wrong ones among the choices that are given. A ranking that is below the
            threshold for it has abstained.

    Raises:
        InputError: if the calibration is of another strategy or metric, or its choices do not show
            that any have such an error.

    >>> import minrisk
    >>> made = minrisk.Calibration("utility", (3.0, 2.0, 1.0), (True, True, False), 2.0, -3.0)
    >>> strategy = minrisk.Calibrated(minrisk.Standard("exact-match"), made)
    >>> round(minrisk.decode(["a", "a", "a", "b"], strategy=strategy).confidence.calibrated, 2)
    0.18
    """

    calibration: Calibration = _calibration_option()
    max_error: float | None = option(None, gt=0, lt=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fit(self.calibration, self.strategy)
        part = self.calibration.signal.partition(".")[0]
        wanted = [Confident, *([Uncertain] if part == "uncertainty" else [])]
        for kind in wanted:
            if not _measures(self.strategy, kind):
                object.__setattr__(self, "strategy", kind(self.strategy))
        _ = self._threshold  # raises an error that concerns every segment

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        value = SIGNALS[self.calibration.signal].value_in(ranking)
        assert ranking.confidence is not None
        confidence = replace(ranking.confidence, calibrated=self.calibration.probability(value))
        abstains = (self._threshold is not None
                    and not self.calibration.is_answered(value, self._threshold))
        return replace(ranking, confidence=confidence, abstained=ranking.abstained or abstains)

    @lazy
    def _threshold(self) -> float | None:
        return None if self.max_error is None else self.calibration.threshold(self.max_error)


def fits(calibration: Calibration, strategy: Strategy) -> bool:
    """Whether a calibration is of choices by this strategy and metric, as far as that is known."""
    return calibration.signature is None or choose_alike(_measured(strategy),
                                                         calibration.signature)


def _check_fit(calibration: Calibration, strategy: Strategy) -> None:
    if not fits(calibration, strategy):
        raise InputError(Wording("the calibration is for choices by {theirs}, but this run uses "
                                 "{ours}; use the same strategy and metric, or calibrate again",
                                 theirs=calibration.signature, ours=_measured(strategy)))


def _measured(strategy: Strategy) -> str:
    """The signature of the strategy that others measure."""
    while isinstance(strategy, StrategyWrapper):
        strategy = strategy.strategy
    return signature(strategy)


def _measures(strategy: Strategy, kind: type) -> bool:
    """Whether a strategy is of this kind, or is wrapped in one."""
    while isinstance(strategy, StrategyWrapper):
        if isinstance(strategy, kind):
            return True
        strategy = strategy.strategy
    return False
