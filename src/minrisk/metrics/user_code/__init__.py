"""Metrics that call user code with pairs of texts, and check the numbers that it returns.

A function of two texts is a metric by itself: `minrisk.decode(metric=function)`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Objects, objects
from minrisk._core.metric import Ability, Metric, lacks_ability
from minrisk.plugins import InputError, option


class PairwiseMetric(Metric[Objects]):
    """A metric whose pairs are scored by user code, which may be as expensive as a model.

    Its options determine whether the code gets the source, with or without the reference, and
    whether lower is better.
    """

    loads_model = True

    source: bool
    by_source: bool
    error: bool

    @property
    def abilities(self) -> Ability:
        return super().abilities if self.by_source else Ability.NONE

    @property
    def needs_source(self) -> bool:
        return self.source or self.by_source

    @property
    def ignores_references(self) -> bool:
        return self.by_source

    @property
    def is_error(self) -> bool:
        return self.error

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) the score of every pair; with `by_source`, independent of the reference."""
        if self.by_source:
            return np.tile(self.quality(hyps, source)[:, None], len(refs))
        last = (source[0],) if self.source and source is not None else ()
        pairs = [(hyp, ref, *last) for hyp in hyps for ref in refs]
        return self._scores(pairs).reshape(len(hyps), len(refs))

    def quality(self, hyps: Objects, source: Objects | None) -> Floats:
        """(H,) the score of every hypothesis with the source."""
        if not self.by_source or source is None:
            raise lacks_ability(self, Ability.QUALITY)
        return self._scores([(hyp, source[0]) for hyp in hyps])

    @abstractmethod
    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        """(N,) scores of these calls, with the arguments hypothesis, reference and source."""


def as_scores(values: Sequence[Any], count: int, name: str, error: bool) -> Floats:
    """(count,) checked scores from the values that user code returned, negated for errors."""
    if len(values) != count:
        raise InputError(f"{name}: expected {count} scores (one per pair, in order), got "
                         f"{len(values)}")
    scores = np.array([finite_number(value, name) for value in values], dtype=np.float64)
    return -scores if error else scores


def finite_number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, str) or not math.isfinite(number):
        raise InputError(f"{name}: expected a finite number, got {value!r:.80}")
    return number


@dataclass(frozen=True)
class Function(PairwiseMetric):
    """a Python function that scores a hypothesis against a reference; higher is better"""

    source = by_source = error = False  # which are no options

    function: Callable[[str, str], float] = option(affects_results=False)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        try:
            values = [self.function(*pair) for pair in arguments]
        except InputError:
            raise
        except Exception as error:  # user code may raise anything
            raise InputError(f"metric {self.name!r} failed: {type(error).__name__}: "
                             f"{error}") from error
        return as_scores(values, len(arguments), self.name, error=False)
