"""chrF and chrF++ (Popović 2015, 2017), with sacreBLEU's numbers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError, unknown
from minrisk.groups import Groups
from minrisk.metrics import _chrf_plain
from minrisk.options import option
from minrisk.rows import WeightedRows
from minrisk.threads import threads


@cache
def _core() -> ModuleType:
    """The native core, or its plain twin with the same numbers where it could not be built.

    MINRISK_CORE chooses one by name: avx512, avx2, portable or plain.
    """
    wanted = os.environ.get("MINRISK_CORE", "")
    if wanted == "plain":
        return _chrf_plain
    try:
        native = import_module("minrisk._native")
    except ImportError as error:
        if wanted:
            raise InputError(f"MINRISK_CORE is {wanted!r}, but the native core cannot be loaded: "
                             f"{error}") from None
        warnings.warn(f"minrisk's native core cannot be loaded ({error}); chrF uses plain Python, "
                      "which is correct but slow: with a C++20 compiler at hand, "
                      "pip install --force-reinstall --no-cache-dir minrisk", RuntimeWarning,
                      stacklevel=2)
        return _chrf_plain
    if wanted:
        if wanted not in native.available_simd():
            raise unknown("MINRISK_CORE", wanted, [*native.available_simd(), "plain"])
        native.set_simd(wanted)
    return native


_MOST = 1000  # orders and beta beyond this are mistakes


@dataclass(frozen=True)
class ChrF:
    """character (and word) n-gram F-score, 0 to 100"""

    name: ClassVar[str] = "chrf"
    features_per_segment: ClassVar[bool] = True  # a small index stays in the cache

    order: int = option(6, help="longest character n-grams")
    word_order: int = option(0, help="longest word n-grams; 2 is chrF++")
    beta: float = option(2.0, help="how much more recall counts than precision")
    whitespace: bool = option(False, help="count white space as characters")
    lowercase: bool = option(False, help="ignore case")
    eps_smoothing: bool = option(False, help="F per order, then the mean, as chrF++.py and NLTK")

    def __post_init__(self) -> None:
        orders = (self.order, self.word_order)
        if not all(0 <= order <= _MOST for order in orders) or not any(orders):
            raise InputError(f"chrF of order {self.order} and word order {self.word_order}; "
                             f"wanted numbers from 0 to {_MOST}, and not 0 for both")
        if not 0 < self.beta <= _MOST:
            raise InputError(f"chrF with beta {self.beta}; a positive number up to {_MOST} "
                             "is wanted")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        if isinstance(texts, str):
            raise InputError("features are of a list of strings, not of one string")
        prepared = self._prepared(texts)
        index = _core().Texts(prepared, self.order, self.word_order, self.whitespace)
        return WeightedRows.plain(self, index, np.arange(len(prepared)))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) chrF of every pair."""
        result: Floats = _core().scores(*self._arguments(hyps, refs))
        return result

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`, without the matrix."""
        result: Floats = _core().utility(*self._arguments(hyps, refs), mass)
        return result

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 3 x orders) n-grams of the hypothesis, of its best reference, and of both."""
        rows = [self._best_match(hyp, own) for hyp, own in zip(hyps, refs, strict=True)]
        return np.array(rows, np.float64).reshape(len(rows), -1)

    def corpus(self, statistics: Floats) -> float:
        return self._f_score(statistics.reshape(-1, 3).tolist())

    def _best_match(self, hyp: str, refs: Sequence[str]) -> _chrf_plain.Statistics:
        texts = _chrf_plain.Texts(self._prepared([hyp, *refs]), self.order, self.word_order,
                                  self.whitespace)
        ours, *theirs = texts.counts
        return max((_chrf_plain.statistics(ours, ref) for ref in theirs), key=self._f_score)

    def _f_score(self, statistics: _chrf_plain.Statistics) -> float:
        return _chrf_plain.f_score(statistics, self.beta, self.eps_smoothing)

    def _prepared(self, texts: Sequence[str]) -> list[str]:
        return [t.lower() for t in texts] if self.lowercase else list(texts)

    def _arguments(self, hyps: WeightedRows, refs: WeightedRows) -> tuple[Any, ...]:
        hyps.check(self)
        refs.check(self)
        if not hyps.is_plain:
            raise InputError("chrF scores texts against references; "
                             "an aggregate cannot be the hypothesis")
        hyps, refs = _together(hyps, refs)
        return (refs.base, hyps.members, refs.offsets, refs.members, refs.weights,
                self.beta, self.eps_smoothing, threads())


def _together(hyps: WeightedRows, refs: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
    """Both in one index: rows that were extracted apart must agree on what an n-gram is."""
    if hyps.base is refs.base:
        return hyps, refs
    joint = _core().Texts.join(hyps.base, refs.base)
    return (replace(hyps, base=joint),
            replace(refs, base=joint, members=refs.members + len(hyps.base)))
