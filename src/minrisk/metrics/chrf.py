"""chrF and chrF++ (Popović 2015, 2017), with sacreBLEU's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.metrics._indexed import indexed, lowered, scores, utility
from minrisk.options import option
from minrisk.rows import WeightedRows

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
        return indexed(self, lowered(texts, self.lowercase), self.order, self.word_order,
                       self.whitespace)

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        return scores(self, hyps, refs, self.beta, self.eps_smoothing)

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        return utility(self, hyps, refs, mass, self.beta, self.eps_smoothing)
