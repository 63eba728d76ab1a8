"""Sentence BLEU (Papineni et al. 2002), equal to sacreBLEU's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.native import backend
from minrisk.metrics.ngram import NgramMetric, lowercased
from minrisk.metrics.ngram.bleu_plain import bleu
from minrisk.metrics.ngram.plain import ngram_counts
from minrisk.metrics.ngram.plain import statistics as order_statistics
from minrisk.metrics.ngram.tokenizers import BUILTIN, sacrebleu_tokenizer, tokenizer_signature
from minrisk.plugins import InputError, WeightedRows, option

Tokenize = Literal["13a", "zh", "char", "none", "intl", "ja-mecab", "ko-mecab", "flores101",
                   "flores200"]
SmoothMethod = Literal["exp", "floor", "add-k", "none"]

_DEFAULT_VALUES = {"floor": 0.1, "add-k": 1.0}
_MAX_ORDER = 1000  # limit for order and smooth_value; more is certainly a mistake
_MAX_SMOOTH_VALUE = 1000


@dataclass(frozen=True)
class BLEU(NgramMetric):
    """Sentence BLEU: n-gram precision with a brevity penalty, 0 to 100.

    Sentence BLEU (Papineni et al. 2002), equal to sacreBLEU's scores pair by pair, and corpus BLEU
    in `minrisk.score`. References can be averaged, by their n-gram counts and lengths.

    Args:
        order: maximum order of n-grams.
        tokenize: tokenizer of sacreBLEU; "13a", "zh", "char" and "none" are built in, the others
            need minrisk[bleu].
        smooth_method: smoothing of n-gram orders without a match, by sacreBLEU's names.
        smooth_value: smoothing value of "floor" or "add-k" [default: 0.1 or 1].
        effective_order: limit the order of n-grams to the length of the hypothesis.
        lowercase: ignore case.

    Raises:
        InputError: if a value is out of range.
        MissingExtra: when it is used, if the tokenizer's package is not installed.

    >>> import minrisk
    >>> bleu = minrisk.BLEU()
    >>> hyps, refs = bleu.features(["the cat sat down"]), bleu.features(["the cat sat there"])
    >>> bleu.scores(hyps, refs).round(1)
    array([[59.5]])
    """

    name = "bleu"
    core = "bleu"
    papers = ("Papineni et al. 2002",)

    order: int = option(4, ge=1, le=_MAX_ORDER)
    tokenize: Tokenize = option("13a")
    smooth_method: SmoothMethod = option("exp")
    smooth_value: float | None = option(None, ge=0, le=_MAX_SMOOTH_VALUE)
    effective_order: bool = option(True)
    lowercase: bool = option(False)

    def prepare(self) -> None:
        self._preprocessed([])

    def features(self, texts: Sequence[str]) -> WeightedRows:
        texts, tokenizer = self._preprocessed(texts)
        return self._index(texts, self.order, tokenizer)

    def statistics(self, hypotheses: Sequence[str],
                   references: Sequence[Sequence[str]]) -> Floats:
        """(N, S) statistics of each hypothesis against its references; they add up over a corpus.

        The length of the reference that is closest in length, then the number of n-grams of each
        order, then the matches, each n-gram clipped by its maximum count in a reference.
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
        method, value, _ = self._formula
        smooth = f"{method}[{value:.2f}]" if method in _DEFAULT_VALUES else method
        if self.order != 4 or (method in _DEFAULT_VALUES and value != round(value, 2)):
            return None
        # has no effect on corpora with n-grams of every order, which sacreBLEU assumes
        matters = statistics is None or not np.all(statistics[:, 1:1 + self.order])
        return {"case": "lc" if self.lowercase else "mixed",
                "eff": self.effective_order and matters,
                "tok": tokenizer_signature(self.tokenize), "smooth": smooth}

    def _statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        if not references:
            raise InputError("each hypothesis needs at least one reference; got none")
        texts = backend(self.name).tokenize(*self._preprocessed([hypothesis, *references]))
        hyp, *refs = (tuple(text.split()) for text in texts)
        closest = min((len(ref) for ref in refs), key=lambda n: (abs(n - len(hyp)), n))
        ref_counts = [ngram_counts(ref, self.order) for ref in refs]
        max_counts = [reduce(or_, same_order) for same_order in zip(*ref_counts, strict=True)]
        orders = order_statistics(ngram_counts(hyp, self.order), max_counts)
        return [closest, *(total for total, _, _ in orders), *(match for _, _, match in orders)]

    def _preprocessed(self, texts: Sequence[str]) -> tuple[list[str], str]:
        """The preprocessed texts, and the tokenizer that the core still has to apply."""
        texts = lowercased(texts, self.lowercase)
        if self.tokenize in BUILTIN:
            return list(texts), self.tokenize
        tokenizer = sacrebleu_tokenizer(self.tokenize)
        return [tokenizer(text.rstrip()) for text in texts], "none"

    @property
    def _formula(self) -> tuple[str, float, bool]:
        value = self.smooth_value
        if value is None:
            value = _DEFAULT_VALUES.get(self.smooth_method, 0.0)
        return self.smooth_method, value, self.effective_order
