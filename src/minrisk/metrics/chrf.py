"""chrF and chrF++ (Popović 2015, 2017), with sacreBLEU's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.metric import Ability, Evidence, Metric
from minrisk.metrics import _chrf_plain
from minrisk.metrics._indexed import evidence, indexed, lowered, scores, utility, verdict
from minrisk.metrics._plain import Statistics
from minrisk.options import option
from minrisk.rows import WeightedRows

_MOST = 1000  # orders and beta beyond this are mistakes


@dataclass(frozen=True)
class ChrF(Metric[WeightedRows]):
    """character (and word) n-gram F-score, 0 to 100"""

    name: ClassVar[str] = "chrf"
    abilities: ClassVar[Ability] = (Ability.AVERAGES | Ability.PARTIAL_STATISTICS
                                    | Ability.CORPUS_STATISTICS)
    features_per_segment: ClassVar[bool] = True  # a small index stays in the cache

    order: int = option(6, help="longest character n-grams")
    word_order: int = option(0, help="longest word n-grams; 2 is chrF++")
    beta: float = option(2.0, help="how much more recall counts than precision")
    whitespace: bool = option(False, help="count white space as characters")
    lowercase: bool = option(False, help="ignore case")
    eps_smoothing: bool = option(False, help="F per order, then the mean, as chrF++.py and NLTK")

    def __post_init__(self) -> None:
        super().__post_init__()
        orders = (self.order, self.word_order)
        if not all(0 <= order <= _MOST for order in orders) or not any(orders):
            raise InputError(f"chrF of order {self.order} and word order {self.word_order}; "
                             f"wanted numbers from 0 to {_MOST}, and not 0 for both")
        if not 0 < self.beta <= _MOST:
            raise InputError(f"chrF with beta {self.beta}; a positive number up to {_MOST} "
                             "is wanted")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return indexed(self, lowered(texts, self.lowercase), self.order, self.word_order,
                       self.whitespace)

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        return scores(self, hyps, refs, self.beta, self.eps_smoothing)

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        return utility(self, hyps, refs, mass, self.beta, self.eps_smoothing)

    def evidence(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Evidence:
        return evidence(self, hyps, refs, weights)

    def verdict(self, hyps: WeightedRows, evidence: Evidence, source: object = None) -> Floats:
        return verdict(self, hyps, evidence, self.beta, self.eps_smoothing)

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 3 x orders) n-grams of the hypothesis, of its best reference, and of both."""
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
        texts = _chrf_plain.Texts(lowered([hyp, *refs], self.lowercase), self.order,
                                  self.word_order, self.whitespace)
        ours, *theirs = texts.counts
        return max((_chrf_plain.statistics(ours, ref) for ref in theirs), key=self._f_score)

    def _f_score(self, statistics: Sequence[Statistics]) -> float:
        return _chrf_plain.f_score(statistics, self.beta, self.eps_smoothing)
