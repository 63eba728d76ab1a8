"""chrF and chrF++ (Popović 2015, 2017), with sacreBLEU's numbers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError, unknown
from minrisk.groups import Groups
from minrisk.options import option
from minrisk.rows import WeightedRows
from minrisk.threads import threads


def _backend() -> ModuleType:
    """The native core, or its plain twin with the same numbers where it could not be built.

    MINRISK_CORE chooses one by name: avx512, avx2, portable or plain.
    """
    wanted = os.environ.get("MINRISK_CORE", "")
    if wanted == "plain":
        return import_module("minrisk.metrics._chrf_plain")
    try:
        native = import_module("minrisk._native")
    except ImportError:
        warnings.warn("minrisk's native core is not installed; chrF uses plain Python, which is "
                      "correct but slow: reinstall with a C++20 compiler", RuntimeWarning,
                      stacklevel=3)
        return import_module("minrisk.metrics._chrf_plain")
    if wanted:
        if wanted not in native.available_simd():
            raise unknown("MINRISK_CORE", wanted, [*native.available_simd(), "plain"])
        native.set_simd(wanted)
    return native


_core = _backend()


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
        if self.order < 0 or self.word_order < 0 or self.order + self.word_order == 0:
            raise InputError(f"chrF of order {self.order} and word order {self.word_order}; "
                             "at least one must be positive, and none negative")
        if not self.beta > 0:
            raise InputError(f"chrF with beta {self.beta}; a positive number is wanted")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        prepared = [t.lower() for t in texts] if self.lowercase else list(texts)
        index = _core.Texts(prepared, self.order, self.word_order, self.whitespace)
        return WeightedRows.plain(index, np.arange(len(prepared)))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) chrF of every pair."""
        hyps, refs = _together(hyps, refs)
        result: Floats = _core.scores(*self._arguments(hyps, refs))
        return result

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`, without the matrix."""
        hyps, refs = _together(hyps, refs)
        result: Floats = _core.utility(*self._arguments(hyps, refs), mass)
        return result

    def _arguments(self, hyps: WeightedRows, refs: WeightedRows) -> tuple[Any, ...]:
        if not hyps.is_plain:
            raise InputError("chrF scores texts against references; "
                             "an aggregate cannot be the hypothesis")
        return (refs.base, hyps.members, refs.offsets, refs.members, refs.weights,
                self.beta, self.eps_smoothing, threads())


def _together(hyps: WeightedRows, refs: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
    """Both in one index: rows that were extracted apart must agree on what an n-gram is."""
    if hyps.base is refs.base:
        return hyps, refs
    joint = _core.Texts.join(hyps.base, refs.base)
    shifted = refs.members + len(hyps.base)
    return (WeightedRows(joint, hyps.offsets, hyps.members, hyps.weights),
            WeightedRows(joint, refs.offsets, shifted, refs.weights))
