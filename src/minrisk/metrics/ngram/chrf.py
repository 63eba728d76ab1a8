"""chrF and chrF++ (Popović 2015, 2017), equal to sacreBLEU's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording
from minrisk.metrics.ngram import NgramMetric, chrf_plain, lowercased
from minrisk.metrics.ngram.plain import Statistics
from minrisk.plugins import WeightedRows, option

_MAX_ORDER = 1000  # limit for orders and beta; more is certainly a mistake
_MAX_BETA = 1000


@dataclass(frozen=True)
class ChrF(NgramMetric):
    """Character n-gram F-score (chrF, chrF++), 0 to 100.

    chrF (Popović 2015) and, with `word_order=2`, chrF++ (Popović 2017), equal to sacreBLEU's scores
    pair by pair and as a corpus. References can be averaged, by their n-gram counts.

    Args:
        order: maximum order of character n-grams.
        word_order: maximum order of word n-grams; 0 is chrF, 2 is chrF++.
        beta: weight of recall relative to precision.
        whitespace: include whitespace in character n-grams.
        lowercase: ignore case.
        eps_smoothing: average the F-scores of all orders, as chrF++.py and NLTK do. Otherwise, the
            score is the F-score of mean precision and recall.

    Raises:
        InputError: if both orders are 0, or a value is out of range.

    >>> import minrisk
    >>> chrf = minrisk.ChrF(word_order=2)
    >>> texts = chrf.features(["the cat sat", "a cat sat"])
    >>> chrf.scores(texts, texts).round(1)
    array([[100. ,  65.3],
           [ 55. , 100. ]])
    """

    name = "chrf"
    core = "chrf"
    papers = ("Popović 2015", "Popović 2017")

    order: int = option(6, ge=0, le=_MAX_ORDER)
    word_order: int = option(0, ge=0, le=_MAX_ORDER)
    beta: float = option(2.0, gt=0, le=_MAX_BETA)
    whitespace: bool = option(False)
    lowercase: bool = option(False)
    eps_smoothing: bool = option(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.order and not self.word_order:
            raise InputError(Wording("chrf: order= or word_order= must be at least 1; got 0 for "
                                     "both"))

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return self._index(lowercased(texts, self.lowercase), self.order, self.word_order,
                           self.whitespace)

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 3 x orders) n-gram counts of the hypothesis, of its best reference, and matches."""
        rows = [self._best_match(hyp, own) for hyp, own in zip(hyps, refs, strict=True)]
        return np.array(rows, np.float64).reshape(len(rows), -1)

    def corpus(self, statistics: Floats) -> float:
        return self._f_score([(h, r, m) for h, r, m in statistics.reshape(-1, 3).tolist()])

    def sacrebleu_fields(self, statistics: Floats | None) -> dict[str, Any] | None:
        if self.beta != 2:
            return None
        return {"case": "lc" if self.lowercase else "mixed", "eff": not self.eps_smoothing,
                "nc": self.order, "nw": self.word_order, "space": self.whitespace}

    def _best_match(self, hyp: str, refs: Sequence[str]) -> Sequence[Statistics]:
        texts = chrf_plain.Texts(lowercased([hyp, *refs], self.lowercase), self.order,
                                  self.word_order, self.whitespace)
        hyp_counts, *ref_counts = texts.counts
        return max((chrf_plain.statistics(hyp_counts, ref) for ref in ref_counts),
                   key=self._f_score)

    def _f_score(self, statistics: Sequence[Statistics]) -> float:
        return chrf_plain.f_score(statistics, *self._formula)

    @property
    def _formula(self) -> tuple[float, bool]:
        return self.beta, self.eps_smoothing
