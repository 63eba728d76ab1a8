"""chrF and chrF++ (Popović 2015, 2017), with sacreBLEU's numbers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from minrisk.arrays import Floats, Ints
from minrisk.errors import InputError, unknown
from minrisk.groups import Groups
from minrisk.options import option
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


@dataclass(frozen=True, eq=False)
class TextRows:
    """Rows of weighted texts. A plain row is one text with weight 1, an aggregate is several.

    N-gram counts are linear in the texts, so a weighted set of texts is an exact stand-in for
    their average counts; aggregates of aggregates are just products of weights.
    """

    texts: Any  # the core's index of the distinct texts
    offsets: Ints  # (rows + 1,) where each row starts in the next two
    members: Ints
    weights: Floats

    @classmethod
    def plain(cls, texts: Any, rows: Ints) -> TextRows:
        return cls(texts, np.arange(rows.size + 1), rows, np.ones(rows.size))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def is_plain(self) -> bool:
        return self.members.size == len(self) and bool(np.all(self.weights == 1))

    def __getitem__(self, rows: Ints, /) -> Self:
        members, offsets = self._expand(np.arange(len(self))[rows])
        return type(self)(self.texts, offsets, self.members[members], self.weights[members])

    def average(self, groups: Groups) -> Self:
        """A row per group: its members' texts with their shares."""
        by_group = np.argsort(groups.labels, kind="stable")
        members, starts = self._expand(by_group)
        share = np.repeat(groups.share[by_group], np.diff(starts))
        sizes = np.bincount(groups.labels, minlength=len(groups))
        offsets = starts[np.concatenate([[0], np.cumsum(sizes)])]
        return type(self)(self.texts, offsets, self.members[members],
                          self.weights[members] * share)

    def _expand(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where the members of these rows are, and where each row starts among them."""
        starts, sizes = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets


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

    def features(self, texts: Sequence[str]) -> TextRows:
        prepared = [t.lower() for t in texts] if self.lowercase else list(texts)
        index = _core.Texts(prepared, self.order, self.word_order, self.whitespace)
        return TextRows.plain(index, np.arange(len(prepared)))

    def aggregate(self, refs: TextRows, groups: Groups) -> TextRows:
        return refs.average(groups)

    def scores(self, hyps: TextRows, refs: TextRows, source: object = None) -> Floats:
        """(H, R) chrF of every pair."""
        hyps, refs = _together(hyps, refs)
        result: Floats = _core.scores(*self._arguments(hyps, refs))
        return result

    def utility(self, hyps: TextRows, refs: TextRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`, without the matrix."""
        hyps, refs = _together(hyps, refs)
        result: Floats = _core.utility(*self._arguments(hyps, refs), mass)
        return result

    def _arguments(self, hyps: TextRows, refs: TextRows) -> tuple[Any, ...]:
        if not hyps.is_plain:
            raise InputError("chrF scores texts against references; "
                             "an aggregate cannot be the hypothesis")
        return (refs.texts, hyps.members, refs.offsets, refs.members, refs.weights,
                self.beta, self.eps_smoothing, threads())


def _together(hyps: TextRows, refs: TextRows) -> tuple[TextRows, TextRows]:
    """Both in one index: rows that were extracted apart must agree on what an n-gram is."""
    if hyps.texts is refs.texts:
        return hyps, refs
    joint = _core.Texts.join(hyps.texts, refs.texts)
    shifted = refs.members + len(hyps.texts)
    return (TextRows(joint, hyps.offsets, hyps.members, hyps.weights),
            TextRows(joint, refs.offsets, shifted, refs.weights))
