"""Other ways to correct the same surrogate, of which none became the strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import minrisk
from minrisk.strategies.groups import kmeans


def corrected(pool: minrisk.Pool, sizes: Sequence[int]) -> Iterator[tuple[str, np.ndarray, float]]:
    """The utilities that each gives all hypotheses, with the share of pairs that it needs."""
    columns, mass = pool.distinct_references()
    mean, surrogate = pool.surrogate_mean(), pool.surrogate_values()
    scores = pool.scores(columns)
    missed = scores - surrogate[:, columns]  # (H, R)
    points = pool.vectors()[columns]
    for size in sizes:
        rng = np.random.default_rng([size, pool.segment.position])
        share = (1 + size) / mass.size
        rows = rng.choice(mass.size, min(size, mass.size), replace=False, p=mass)
        random = np.average(missed[:, rows], axis=1, weights=mass[rows])
        yield f"random, {size}", mean + random, share
        yield f"shrunk, {size}", mean + shrinkage(missed[:, rows]) * random, share
        slope = coefficient(scores[:, rows], surrogate[:, columns[rows]])
        known = np.average(surrogate[:, columns[rows]], axis=1, weights=mass[rows])
        plain = np.average(scores[:, rows], axis=1, weights=mass[rows])
        yield f"coefficient, {size}", plain - slope * (known - mean), share
        labels = kmeans(points, mass, size, 10, rng)
        near, weights = exemplars(points, mass, labels)
        yield f"exemplars, {size}", mean + missed[:, near] @ weights, share
        some, weights = strata(mass, labels, rng)
        yield f"strata, {size}", mean + missed[:, some] @ weights, share


def shrinkage(missed: np.ndarray) -> float:
    """How much of the corrections' variance over hypotheses is not noise."""
    size = missed.shape[1]
    if size == 1:
        return 0.0  # all of it may be
    noise = missed.var(axis=1, ddof=1).mean() / size
    return float(max(0.0, 1 - noise / missed.mean(axis=1).var()))


def coefficient(scores: np.ndarray, surrogate: np.ndarray) -> float:
    """Of the regression of scores on the surrogate within hypotheses, drawn to 1 by as much as one
    reference weighs."""
    size = scores.shape[1]
    apart, known = (x - x.mean(axis=1, keepdims=True) for x in (scores, surrogate))
    slope = (apart * known).sum() / ((known * known).sum() or 1.0)
    return float(1 + (slope - 1) * (size - 1) / size)


def exemplars(points: np.ndarray, mass: np.ndarray,
              labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each cluster the member nearest to its centroid, with the mass of all of them."""
    near, weights = [], np.bincount(labels, mass)
    for cluster in range(len(weights)):
        members = np.flatnonzero(labels == cluster)
        centre = np.average(points[members], axis=0, weights=mass[members])
        near.append(members[np.argmin(np.square(points[members] - centre).sum(axis=1))])
    return np.array(near), weights


def strata(mass: np.ndarray, labels: np.ndarray,
           rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of each cluster a member at random, by mass, with the mass of all of them: unbiased."""
    weights = np.bincount(labels, mass)
    chosen = [rng.choice(mass.size, p=np.where(labels == cluster, mass, 0) / whole)
              for cluster, whole in enumerate(weights)]
    return np.array(chosen), weights
