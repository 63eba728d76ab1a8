"""How well scores agree with expert judgements, with intervals over sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from data import Judgement

RESAMPLES = 1000
Resampled = Callable[[np.ndarray], float]  # of the sources at these places
Statistic = Callable[[np.ndarray, np.ndarray, Sequence[np.ndarray]], Resampled]


def distinct(rows: Sequence[Judgement]) -> list[Judgement]:
    """Each hypothesis once, with the mean of its judgements: systems often agree."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        found[row.source, row.hypothesis, row.reference].append(row.score)
    return [Judgement(*texts, float(np.mean(scores)), "") for texts, scores in found.items()]


def by_source(rows: Sequence[Judgement]) -> list[np.ndarray]:
    """The places of each source's rows."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[row.source].append(place)
    return [np.array(own) for own in places.values()]


def spearman(scores: np.ndarray, truth: np.ndarray, sources: Sequence[np.ndarray]) -> Resampled:
    """Of all rows of the sources together."""
    def correlation(chosen: np.ndarray) -> float:
        rows = np.concatenate([sources[source] for source in chosen])
        return float(np.corrcoef(_ranks(scores[rows]), _ranks(truth[rows]))[0, 1])

    return correlation


def accuracy(scores: np.ndarray, truth: np.ndarray, sources: Sequence[np.ndarray]) -> Resampled:
    """The share of pairs of one source that are ordered as judged, a mean over sources.

    Pairs that were judged equal do not count; equal scores are half right.
    """
    shares = np.array([_share(scores[rows], truth[rows]) for rows in sources])
    return lambda chosen: float(np.nanmean(shares[chosen]))


def with_interval(statistic: Statistic, scores: np.ndarray,
                  rows: Sequence[Judgement]) -> list[float]:
    """The statistic, and the 95% of its values over resampled sources."""
    value, again = resampled(statistic, scores, rows)
    return _rounded(value, *_most(again))


def difference(statistic: Statistic, scores: np.ndarray, rivals: np.ndarray,
               rows: Sequence[Judgement]) -> list[float]:
    """By how much the scores are better than their rivals, its interval, and the p-value.

    Both are of the same resampled sources; p is twice the share of them on the other side of zero.
    """
    (own, again), (rival, rivals_again) = (resampled(statistic, values, rows)
                                           for values in (scores, rivals))
    apart = again - rivals_again
    beyond = min(np.count_nonzero(apart <= 0), np.count_nonzero(apart >= 0))
    return _rounded(own - rival, *_most(apart), min(1.0, 2 * (beyond + 1) / (RESAMPLES + 1)))


def resampled(statistic: Statistic, scores: np.ndarray, rows: Sequence[Judgement],
              seed: int = 0) -> tuple[float, np.ndarray]:
    """The statistic, and its values over sources drawn again, the same ones for all scores."""
    sources = by_source(rows)
    value = statistic(scores, np.array([row.score for row in rows]), sources)
    rng, count = np.random.default_rng(seed), len(sources)
    again = [value(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    return value(np.arange(count)), np.array(again)


def _most(values: np.ndarray) -> list[float]:
    return np.quantile(values, [0.025, 0.975]).tolist()


def _rounded(*values: float) -> list[float]:
    return [round(value, 4) for value in values]


def _share(scores: np.ndarray, truth: np.ndarray) -> float:
    judged = np.sign(truth[:, None] - truth)
    if not judged.any():
        return np.nan
    right = np.sign(scores[:, None] - scores) * judged
    return float((1 + right[judged != 0].mean()) / 2)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
