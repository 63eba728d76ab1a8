"""chrF in plain Python: the reference in tests, and the fallback without the native core.

Same interface and same results as `minrisk._native.chrf`.
"""

from __future__ import annotations

from collections.abc import Sequence

from minrisk.metrics.ngram import plain
from minrisk.metrics.ngram.plain import (
    CountedTexts,
    Counts,
    Formula,
    Statistics,
    ngram_counts,
    partial_statistics,
)

__all__ = ["Texts", "f_score", "finalize", "partial_statistics", "scores", "statistics", "utility"]
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_EPSILON = 1e-16  # sacreBLEU's score of an order without a match: negligible, but breaks ties


class ChrFTexts(CountedTexts):
    def __init__(self, texts: Sequence[str], order: int, word_order: int, whitespace: bool):
        super().__init__([_counts(text, order, word_order, whitespace) for text in texts],
                         order + word_order)


Texts = ChrFTexts  # the name in the native core


def _counts(text: str, order: int, word_order: int, whitespace: bool) -> Counts:
    characters = text if whitespace else "".join(text.split())
    words = tuple(part for word in text.split() for part in _split_punctuation(word))
    return [*ngram_counts(characters, order), *ngram_counts(words, word_order)]


def _split_punctuation(word: str) -> list[str]:
    """Split off one punctuation mark, the last character or else the first, as in chrF++."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return [word[:-1], word[-1]]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return [word[0], word[1:]]
    return [word]


def statistics(hyp: Counts, ref: Counts) -> list[Statistics]:
    """Statistics per order; if the reference has no n-grams, the hypothesis's do not count."""
    return [(h if r else 0, r, m) for h, r, m in plain.statistics(hyp, ref)]


def f_score(statistics: Sequence[Statistics], beta: float, eps_smoothing: bool) -> float:
    """chrF of a sentence, or of a corpus by the sums of its statistics."""
    return (_smoothed if eps_smoothing else _effective)(statistics, beta * beta)


def _effective(statistics: Sequence[Statistics], factor: float) -> float:
    """F of mean precision and recall, over the orders of which both texts have n-grams."""
    both = [(m / h, m / r) for h, r, m in statistics if h > 0 and r > 0]
    if not both:
        return 0.0
    precision = sum(p for p, _ in both) / len(both)
    recall = sum(r for _, r in both) / len(both)
    return 100 * _f(precision, recall, factor)


def _smoothed(statistics: Sequence[Statistics], factor: float) -> float:
    """Mean of F over all orders."""
    per_order = [
        _f(m / h if h > 0 else _EPSILON, m / r if r > 0 else _EPSILON, factor, _EPSILON)
        for h, r, m in statistics
    ]
    return 100 * sum(per_order) / len(statistics)


def _f(precision: float, recall: float, factor: float, undefined: float = 0.0) -> float:
    denominator = factor * precision + recall
    return (1 + factor) * precision * recall / denominator if denominator > 0 else undefined


_core = Formula(f_score)
scores, utility, finalize = _core.scores, _core.utility, _core.finalize
