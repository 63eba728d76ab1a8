"""BLEU in plain Python: the reference in tests, and the fallback without the native core.

Same interface and same results as `minrisk._native.bleu`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from minrisk.metrics.ngram.plain import (
    CountedTexts,
    Formula,
    Statistics,
    ngram_counts,
    partial_statistics,
)
from minrisk.metrics.ngram.tokenizers import BUILTIN

__all__ = ["Texts", "bleu", "finalize", "partial_statistics", "scores", "tokenize", "utility"]

_WEIGHT_TOLERANCE = 1e-9  # rounding error of weights that sum to 1


class BleuTexts(CountedTexts):
    def __init__(self, texts: Sequence[str], order: int, tokenizer: str):
        super().__init__([ngram_counts(tuple(t.split()), order)
                          for t in tokenize(texts, tokenizer)], order)


Texts = BleuTexts  # the name in the native core


def tokenize(texts: Sequence[str], tokenizer: str) -> list[str]:
    """The texts with white space between their tokens."""
    return [BUILTIN[tokenizer](text.rstrip()) for text in texts]


def bleu(statistics: Sequence[Statistics], smooth_method: str, smooth_value: float,
         effective_order: bool) -> float:
    """BLEU of a sentence, or of a corpus by the sums of its statistics.

    An average may have fewer than one match of an order; that counts at least as much as none. The
    first order is never smoothed, so that without matches the score is 0.
    """
    (length, ref_length, _), added = statistics[0], 0.0
    if smooth_method == "add-k":
        added = smooth_value
        statistics = [statistics[0], *((h + added, r, m + added) for h, r, m in statistics[1:])]
    orders = [(h, m) for h, _, m in statistics if h > 0]
    if length == 0 or (len(orders) < len(statistics) and not effective_order):
        return 0.0
    smoothed = _smoothed([m for _, m in orders], smooth_method, smooth_value)
    if not all(smoothed):
        return 0.0
    logs = [math.log(m / h) for m, (h, _) in zip(smoothed, orders, strict=True)]
    return 100 * math.exp(sum(logs) / len(logs) + min(0.0, 1 - ref_length / length))


def _smoothed(matches: list[float], smooth_method: str, smooth_value: float) -> list[float]:
    """The matches with smoothing, except for the first order: without matches, no other has any."""
    smallest = {"exp": 0.5, "floor": smooth_value}.get(smooth_method, 0.0)
    result = matches[:1]
    for match in matches[1:]:
        unmatched = match < min(1.0, smallest) * (1 - _WEIGHT_TOLERANCE)
        result.append(smallest if unmatched else match)
        if unmatched and smooth_method == "exp":
            smallest /= 2
    return result


_core = Formula(bleu)
scores, utility, finalize = _core.scores, _core.utility, _core.finalize
