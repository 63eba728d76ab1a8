"""What the plain twins of the native core share, written for the reader.

Counts are counters, an aggregate is a weighted sum of counters, a match is the sum of minima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from minrisk.arrays import Floats, Ints

NGram = str | tuple[str, ...]
Counts = Sequence[Mapping[NGram, float]]  # one mapping per order
Statistics = tuple[float, float, float]  # n-grams of the hypothesis, of the reference, and in both


class CountedTexts:
    """The n-gram counts of each text."""

    def __init__(self, counts: list[Counts], orders: int) -> None:
        self.counts = counts
        self.orders = orders

    @staticmethod
    def join(first: CountedTexts, second: CountedTexts) -> CountedTexts:
        return CountedTexts(first.counts + second.counts, first.orders)

    def __len__(self) -> int:
        return len(self.counts)


def ngram_counts(symbols: NGram, order: int) -> list[Counter[NGram]]:
    return [Counter(_ngrams(symbols, n)) for n in range(1, order + 1)]


def _ngrams(symbols: NGram, n: int) -> Iterator[NGram]:
    return (symbols[i:i + n] for i in range(len(symbols) - n + 1))


def all_scores(texts: CountedTexts, hyps: Ints, offsets: Ints, members: Ints, weights: Floats,
               score: Callable[[list[Statistics]], float]) -> Floats:
    """(H, R) where reference row g averages members[offsets[g]:offsets[g + 1]]."""
    refs = [
        _average([texts.counts[m] for m in members[a:b]], weights[a:b], texts.orders)
        for a, b in pairwise(offsets)
    ]
    return np.array([
        [score(statistics(texts.counts[h], ref)) for ref in refs] for h in hyps
    ]).reshape(len(hyps), len(refs))


def statistics(hyp: Counts, ref: Counts) -> list[Statistics]:
    """Per order."""
    return [
        (sum(ours.values()), sum(theirs.values()),
         sum(min(count, theirs[x]) for x, count in ours.items() if x in theirs))
        for ours, theirs in zip(hyp, ref, strict=True)
    ]


def evidence(hyps: CountedTexts, refs: CountedTexts, members: Ints, weights: Floats) -> Floats:
    """For each order all n-grams of the references, then those that hypotheses have."""
    average = _average([refs.counts[m] for m in members], weights, hyps.orders)
    return np.array([
        number for known, order in zip(_known(hyps), average, strict=True)
        for number in (sum(order.values()), *(order.get(ngram, 0.0) for ngram in known))
    ])


def verdict(texts: CountedTexts, hyps: Ints, evidence: Floats,
            score: Callable[[list[Statistics]], float]) -> Floats:
    """(H,) against the average that the evidence is of."""
    totals, counts = [], []
    numbers = iter(evidence.tolist())
    for known in _known(texts):
        totals.append(next(numbers))
        counts.append(dict(zip(known, numbers, strict=False)))
    return np.array([score([
        (ours, total, match) for (ours, _, match), total
        in zip(statistics(texts.counts[h], counts), totals, strict=True)
    ]) for h in hyps])


def _known(texts: CountedTexts) -> list[dict[NGram, None]]:
    """For each order the n-grams that any text has."""
    return [dict.fromkeys(ngram for counts in texts.counts for ngram in counts[order])
            for order in range(texts.orders)]


def _average(rows: list[Counts], weights: Floats, orders: int) -> Counts:
    if len(rows) == 1 and weights[0] == 1:
        return rows[0]
    totals: list[dict[NGram, float]] = [{} for _ in range(orders)]
    for counts, weight in zip(rows, weights.tolist(), strict=True):
        for total, order in zip(totals, counts, strict=True):
            for ngram, count in order.items():
                total[ngram] = total.get(ngram, 0.0) + weight * count
    return totals
