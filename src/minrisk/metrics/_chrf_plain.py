"""chrF in plain Python: the reference in tests, and the fallback without the native core.

Same interface and same numbers as `minrisk._native`, written for the reader: counts are counters,
an aggregate is a weighted sum of counters, a match is the sum of minima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from minrisk.arrays import Floats, Ints

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

_EPSILON = 1e-16  # where sacreBLEU's smoothing finds nothing: invisible, but it breaks ties

NGram = str | tuple[str, ...]
Counts = Sequence[Mapping[NGram, float]]  # one mapping per order
Statistics = Sequence[Sequence[float]]  # per order: of the hypothesis, of the reference, of both


class Texts:
    """The n-gram counts of each text."""

    def __init__(self, texts: Sequence[str], order: int, word_order: int, whitespace: bool):
        self.orders = order + word_order
        self.counts = [_counts(text, order, word_order, whitespace) for text in texts]

    @classmethod
    def join(cls, first: Texts, second: Texts) -> Texts:
        joint = cls.__new__(cls)
        joint.orders = first.orders
        joint.counts = first.counts + second.counts
        return joint

    def __len__(self) -> int:
        return len(self.counts)


def scores(texts: Texts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
           beta: float, eps_smoothing: bool, threads: int) -> Floats:
    """(H, R) where reference row g averages members[offsets[g]:offsets[g + 1]]."""
    refs = [
        _average([texts.counts[m] for m in members[a:b]], weights[a:b], texts.orders)
        for a, b in pairwise(offsets)
    ]
    return np.array([
        [f_score(statistics(texts.counts[h], ref), beta, eps_smoothing) for ref in refs]
        for h in hyps
    ]).reshape(len(hyps), len(refs))


def utility(texts: Texts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
            beta: float, eps_smoothing: bool, threads: int, mass: Floats) -> Floats:
    return scores(texts, hyps, offsets, members, weights, beta, eps_smoothing, threads) @ mass


def _counts(text: str, order: int, word_order: int, whitespace: bool) -> Counts:
    characters = text if whitespace else "".join(text.split())
    words = tuple(part for word in text.split() for part in _split_punctuation(word))
    return [
        *(Counter(_ngrams(characters, n)) for n in range(1, order + 1)),
        *(Counter(_ngrams(words, n)) for n in range(1, word_order + 1)),
    ]


def _ngrams(symbols: NGram, n: int) -> list[NGram]:
    return [symbols[i:i + n] for i in range(len(symbols) - n + 1)]


def _split_punctuation(word: str) -> list[str]:
    """One mark is split off a word, the last before the first, as chrF++ does."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return [word[:-1], word[-1]]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return [word[0], word[1:]]
    return [word]


def _average(rows: list[Counts], weights: Floats, orders: int) -> Counts:
    if len(rows) == 1 and weights[0] == 1:
        return rows[0]
    totals: list[dict[NGram, float]] = [{} for _ in range(orders)]
    for counts, weight in zip(rows, weights.tolist(), strict=True):
        for total, order in zip(totals, counts, strict=True):
            for ngram, count in order.items():
                total[ngram] = total.get(ngram, 0.0) + weight * count
    return totals


def statistics(hyp: Counts, ref: Counts) -> Statistics:
    """How many n-grams; the hypothesis has none of an order where the reference has none."""
    return [_matches(ours, theirs) for ours, theirs in zip(hyp, ref, strict=True)]


def _matches(ours: Mapping[NGram, float],
             theirs: Mapping[NGram, float]) -> tuple[float, float, float]:
    match = sum(min(count, theirs[x]) for x, count in ours.items() if x in theirs)
    return sum(ours.values()) if theirs else 0, sum(theirs.values()), match


def f_score(statistics: Statistics, beta: float, eps_smoothing: bool) -> float:
    return (_smoothed if eps_smoothing else _effective)(statistics, beta * beta)


def _effective(statistics: Statistics, factor: float) -> float:
    """One F of precision and recall averaged over the orders that both sides have."""
    both = [(m / h, m / r) for h, r, m in statistics if h > 0 and r > 0]
    if not both:
        return 0.0
    precision = sum(p for p, _ in both) / len(both)
    recall = sum(r for _, r in both) / len(both)
    return 100 * _f(precision, recall, factor)


def _smoothed(statistics: Statistics, factor: float) -> float:
    """F averaged over all orders."""
    per_order = [
        _f(m / h if h > 0 else _EPSILON, m / r if r > 0 else _EPSILON, factor, _EPSILON)
        for h, r, m in statistics
    ]
    return 100 * sum(per_order) / len(statistics)


def _f(precision: float, recall: float, factor: float, nothing: float = 0.0) -> float:
    bottom = factor * precision + recall
    return (1 + factor) * precision * recall / bottom if bottom > 0 else nothing
