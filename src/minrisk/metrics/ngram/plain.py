"""Shared functions of n-gram metrics in plain Python, written for clarity.

Texts are counters of n-grams, aggregates are weighted sums of counters, matches are sums of minima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints

NGram = str | tuple[str, ...]
Counts = Sequence[Mapping[NGram, float]]  # one mapping per order
Statistics = tuple[float, float, float]  # n-grams in the hypothesis, in the reference, matches


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


@dataclass(frozen=True)
class Formula:
    """A function of statistics with the calls of the native core, which end with its options."""

    score: Callable[..., float]  # of the statistics of all orders, and of the metric's options

    def scores(self, texts: CountedTexts, hyps: Ints, offsets: Ints, members: Ints,
               weights: Floats, *options: Any) -> Floats:
        """(H, R) scores; reference g is the average of members[offsets[g]:offsets[g + 1]].

        The last option is the number of threads.
        """
        refs = [
            _average([texts.counts[m] for m in members[a:b]], weights[a:b], texts.orders)
            for a, b in pairwise(offsets)
        ]
        return np.array([
            [self.score(statistics(texts.counts[h], ref), *options[:-1]) for ref in refs]
            for h in hyps
        ]).reshape(len(hyps), len(refs))

    def utility(self, *arguments: Any) -> Floats:
        """(H,) the scores of the other arguments times the last one, the mass of references."""
        utility: Floats = self.scores(*arguments[:-1]) @ arguments[-1]
        return utility

    def finalize(self, texts: CountedTexts, hyps: Ints, sums: Floats, *options: Any) -> Floats:
        """(H,) scores against the average of the references whose partial statistics these are."""
        totals, counts = [], []
        numbers = iter(sums.tolist())
        for ngrams in _distinct_ngrams(texts):
            totals.append(next(numbers))
            counts.append(dict(zip(ngrams, numbers, strict=False)))
        return np.array([self.score([
            (in_hyp, total, match) for (in_hyp, _, match), total
            in zip(statistics(texts.counts[h], counts), totals, strict=True)
        ], *options) for h in hyps])


def statistics(hyp: Counts, ref: Counts) -> list[Statistics]:
    """The statistics of a pair, for each order."""
    return [
        (sum(in_hyp.values()), sum(in_ref.values()),
         sum(min(count, in_ref[x]) for x, count in in_hyp.items() if x in in_ref))
        for in_hyp, in_ref in zip(hyp, ref, strict=True)
    ]


def partial_statistics(hyps: CountedTexts, refs: CountedTexts, members: Ints,
                       weights: Floats) -> Floats:
    """For each order, the total count in the references, then the counts of hypotheses' n-grams."""
    average = _average([refs.counts[m] for m in members], weights, hyps.orders)
    return np.array([
        number for ngrams, order in zip(_distinct_ngrams(hyps), average, strict=True)
        for number in (sum(order.values()), *(order.get(ngram, 0.0) for ngram in ngrams))
    ])


def _distinct_ngrams(texts: CountedTexts) -> list[dict[NGram, None]]:
    """The distinct n-grams of all texts for each order."""
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
