"""BLEU of sentences (Papineni et al. 2002), with sacreBLEU's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.metric import Ability, Evidence, Metric
from minrisk.metrics._bleu_plain import bleu
from minrisk.metrics._core import core
from minrisk.metrics._indexed import evidence, indexed, lowered, scores, utility, verdict
from minrisk.metrics._plain import ngram_counts
from minrisk.metrics._plain import statistics as order_statistics
from minrisk.metrics._tokenizers import OURS, sacrebleu_tokenizer, tokenizer_signature
from minrisk.options import option
from minrisk.rows import WeightedRows

Tokenize = Literal["13a", "zh", "char", "none", "intl", "ja-mecab", "ko-mecab", "flores101",
                   "flores200"]
SmoothMethod = Literal["exp", "floor", "add-k", "none"]

_DEFAULT_VALUES = {"floor": 0.1, "add-k": 1.0}
_MOST = 1000  # orders and values beyond this are mistakes


@dataclass(frozen=True)
class BLEU(Metric[WeightedRows]):
    """token n-gram precision with a penalty for brevity, 0 to 100"""

    name: ClassVar[str] = "bleu"
    abilities: ClassVar[Ability] = (Ability.AVERAGES | Ability.PARTIAL_STATISTICS
                                    | Ability.CORPUS_STATISTICS)
    features_per_segment: ClassVar[bool] = True  # a small index stays in the cache

    order: int = option(4, help="longest n-grams")
    tokenize: Tokenize = option("13a", help="how texts become tokens")
    smooth_method: SmoothMethod = option("exp", help="what an order without a match counts as")
    smooth_value: float | None = option(None, help="for floor (0.1 if auto) and add-k (1)")
    effective_order: bool = option(True, help="judge texts too short for an order by the others")
    lowercase: bool = option(False, help="ignore case")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.order <= _MOST:
            raise InputError(f"BLEU of order {self.order}; wanted a number from 1 to {_MOST}")
        if self.smooth_value is not None and not 0 <= self.smooth_value <= _MOST:
            raise InputError(f"BLEU with smooth_value {self.smooth_value}; wanted a number "
                             f"from 0 to {_MOST}")

    def prepare(self) -> None:
        self._prepared([])

    def features(self, texts: Sequence[str]) -> WeightedRows:
        texts, tokenizer = self._prepared(texts)
        return indexed(self, texts, self.order, tokenizer)

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        return scores(self, hyps, refs, *self._formula)

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        return utility(self, hyps, refs, mass, *self._formula)

    def evidence(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Evidence:
        return evidence(self, hyps, refs, weights)

    def verdict(self, hyps: WeightedRows, evidence: Evidence, source: object = None) -> Floats:
        return verdict(self, hyps, evidence, *self._formula)

    def statistics(self, hypotheses: Sequence[str],
                   references: Sequence[Sequence[str]]) -> Floats:
        """(N, S) of each hypothesis and its own references: sums over a corpus are its statistics.

        The length of the reference that is nearest in length, then for each order the n-grams and
        the matches with whichever reference has the most of that n-gram.
        """
        rows = [self._statistics(hypothesis, refs)
                for hypothesis, refs in zip(hypotheses, references, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 1 + 2 * self.order)

    def corpus(self, statistics: Floats) -> float:
        """Corpus BLEU from the (S,) sum."""
        ref_length, *counts = statistics.tolist()
        pairs = zip(counts[:self.order], counts[self.order:], strict=True)
        return bleu([(total, ref_length, match) for total, match in pairs], *self._formula)

    def sacrebleu_fields(self, statistics: Floats | None) -> dict[str, Any] | None:
        if self.order != 4:
            return None
        method, value, _ = self._formula
        smooth = f"{method}[{value:.2f}]" if method in _DEFAULT_VALUES else method
        # in corpora with n-grams of every order, which sacreBLEU expects, it changes nothing
        matters = statistics is None or not np.all(statistics[:, 1:1 + self.order])
        return {"case": "lc" if self.lowercase else "mixed",
                "eff": self.effective_order and matters,
                "tok": tokenizer_signature(self.tokenize), "smooth": smooth}

    def _statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        if not references:
            raise InputError("a hypothesis without a reference; at least one is wanted for each")
        texts = core(self.name).tokenize(*self._prepared([hypothesis, *references]))
        hyp, *refs = (tuple(text.split()) for text in texts)
        nearest = min((len(ref) for ref in refs), key=lambda n: (abs(n - len(hyp)), n))
        ref_counts = [ngram_counts(ref, self.order) for ref in refs]
        most = [reduce(or_, same_order) for same_order in zip(*ref_counts, strict=True)]
        orders = order_statistics(ngram_counts(hyp, self.order), most)
        return [nearest, *(total for total, _, _ in orders), *(match for _, _, match in orders)]

    def _prepared(self, texts: Sequence[str]) -> tuple[list[str], str]:
        """The texts, and which of the core's tokenizers they still need."""
        texts = lowered(texts, self.lowercase)
        if self.tokenize in OURS:
            return list(texts), self.tokenize
        tokenizer = sacrebleu_tokenizer(self.tokenize)
        return [tokenizer(text.rstrip()) for text in texts], "none"

    @property
    def _formula(self) -> tuple[str, float, bool]:
        value = self.smooth_value
        if value is None:
            value = _DEFAULT_VALUES.get(self.smooth_method, 0.0)
        return self.smooth_method, value, self.effective_order
