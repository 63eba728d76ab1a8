"""chrF in plain Python: the reference in tests, and the fallback without the native core.

Same interface and same numbers as `minrisk._native`, written for the reader: counts are counters,
an aggregate is a weighted sum of counters, a match is the sum of minima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from minrisk.arrays import Floats, Ints

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

NGram = tuple[str, ...]
Counts = Sequence[Mapping[NGram, float]]  # one mapping per order


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
    f_score = _smoothed if eps_smoothing else _effective
    return np.array([
        [f_score(list(_statistics(texts.counts[h], ref)), beta * beta) for ref in refs]
        for h in hyps
    ]).reshape(len(hyps), len(refs))


def utility(texts: Texts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
            beta: float, eps_smoothing: bool, threads: int, mass: Floats) -> Floats:
    return scores(texts, hyps, offsets, members, weights, beta, eps_smoothing, threads) @ mass


def _counts(text: str, order: int, word_order: int, whitespace: bool) -> Counts:
    characters = text if whitespace else "".join(text.split())
    words = [part for word in text.split() for part in _split_punctuation(word)]
    return [
        *(Counter(_ngrams(characters, n)) for n in range(1, order + 1)),
        *(Counter(_ngrams(words, n)) for n in range(1, word_order + 1)),
    ]


def _ngrams(symbols: Sequence[str], n: int) -> Iterator[NGram]:
    return (tuple(symbols[i:i + n]) for i in range(len(symbols) - n + 1))


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


def _statistics(hyp: Counts, ref: Counts) -> Iterator[tuple[float, float, float]]:
    """Per order: n-grams of the hypothesis, of the reference, and in both."""
    for ours, theirs in zip(hyp, ref, strict=True):
        match = sum(min(count, theirs[x]) for x, count in ours.items() if x in theirs)
        yield sum(ours.values()), sum(theirs.values()), match


def _effective(statistics: list[tuple[float, float, float]], factor: float) -> float:
    """One F of precision and recall averaged over the orders that both sides have."""
    both = [(m / h, m / r) for h, r, m in statistics if h > 0 and r > 0]
    if not both:
        return 0.0
    precision = sum(p for p, _ in both) / len(both)
    recall = sum(r for _, r in both) / len(both)
    return 100 * _f(precision, recall, factor)


def _smoothed(statistics: list[tuple[float, float, float]], factor: float) -> float:
    """F averaged over all orders. sacreBLEU adds 1e-16 to an order without n-grams: not visible."""
    per_order = [_f(m / h, m / r, factor) for h, r, m in statistics if h > 0 and r > 0]
    return 100 * sum(per_order) / len(statistics)


def _f(precision: float, recall: float, factor: float) -> float:
    bottom = factor * precision + recall
    return (1 + factor) * precision * recall / bottom if bottom > 0 else 0.0
