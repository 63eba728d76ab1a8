"""chrF in plain Python: the reference in tests, and the fallback without the native core.

Same interface and same numbers as `minrisk._native.chrf`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from minrisk.arrays import Floats, Ints
from minrisk.metrics._plain import CountedTexts, Counts, Statistics, all_scores, ngram_counts

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class Texts(CountedTexts):
    def __init__(self, texts: Sequence[str], order: int, word_order: int, whitespace: bool):
        super().__init__([_counts(text, order, word_order, whitespace) for text in texts],
                         order + word_order)


def scores(texts: CountedTexts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
           beta: float, eps_smoothing: bool, threads: int) -> Floats:
    f_score = partial(_smoothed if eps_smoothing else _effective, factor=beta * beta)
    return all_scores(texts, hyps, offsets, members, weights, f_score)


def utility(texts: CountedTexts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
            beta: float, eps_smoothing: bool, threads: int, mass: Floats) -> Floats:
    return scores(texts, hyps, offsets, members, weights, beta, eps_smoothing, threads) @ mass


def _counts(text: str, order: int, word_order: int, whitespace: bool) -> Counts:
    characters = text if whitespace else "".join(text.split())
    words = [part for word in text.split() for part in _split_punctuation(word)]
    return [*ngram_counts(characters, order), *ngram_counts(words, word_order)]


def _split_punctuation(word: str) -> list[str]:
    """One mark is split off a word, the last before the first, as chrF++ does."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return [word[:-1], word[-1]]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return [word[0], word[1:]]
    return [word]


def _effective(statistics: list[Statistics], factor: float) -> float:
    """One F of precision and recall averaged over the orders that both sides have."""
    both = [(m / h, m / r) for h, r, m in statistics if h > 0 and r > 0]
    if not both:
        return 0.0
    precision = sum(p for p, _ in both) / len(both)
    recall = sum(r for _, r in both) / len(both)
    return 100 * _f(precision, recall, factor)


def _smoothed(statistics: list[Statistics], factor: float) -> float:
    """F averaged over all orders. sacreBLEU adds 1e-16 to an order without n-grams: not visible."""
    per_order = [_f(m / h, m / r, factor) for h, r, m in statistics if h > 0 and r > 0]
    return 100 * sum(per_order) / len(statistics)


def _f(precision: float, recall: float, factor: float) -> float:
    bottom = factor * precision + recall
    return (1 + factor) * precision * recall / bottom if bottom > 0 else 0.0
