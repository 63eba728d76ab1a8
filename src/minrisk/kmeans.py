"""k-means with k-means++ (Arthur & Vassilvitskii 2007) of weighted points.

In NumPy, wherever the points were made: a thousand of them take a few milliseconds.
"""

from __future__ import annotations

import numpy as np

from minrisk.arrays import Floats, Ints


def kmeans(points: Floats, weights: Floats, count: int, iterations: int,
           rng: np.random.Generator) -> Ints:
    """(N,) the cluster of each point: `count` of them, or fewer where points are equal."""
    labels = _nearest(points, points[_seeds(points, weights, count, rng)])
    for _ in range(iterations):
        before, labels = labels, _nearest(points, _means(points, weights, labels))
        if np.array_equal(before, labels):
            break
    return labels


def nearest_members(points: Floats, weights: Floats, labels: Ints) -> Ints:
    """(G,) of each cluster the point that is nearest to its centroid."""
    centroids = _means(points, weights, labels)
    apart = np.square(points - centroids[labels]).sum(axis=1)
    order = np.lexsort((apart, labels))
    return order[np.unique(labels[order], return_index=True)[1]]


def _seeds(points: Floats, weights: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """Points far from each other: drawn by weight, and the squared distance to those before."""
    chosen: list[int] = []
    chance = weights
    apart = np.full(len(points), np.inf)
    while len(chosen) < count and chance.any():
        chosen.append(int(rng.choice(len(points), p=chance / chance.sum())))
        apart = np.minimum(apart, _squared_distances(points, points[chosen[-1:]])[:, 0])
        chance = weights * apart
    return chosen


def _means(points: Floats, weights: Floats, labels: Ints) -> Floats:
    """(G, D) of the clusters; one without weight is averaged evenly."""
    member = labels == np.arange(labels.max() + 1)[:, None]  # (G, N)
    weighted = member * weights
    share = np.where(weighted.any(axis=1, keepdims=True), weighted, member)
    means: Floats = share @ points / share.sum(axis=1, keepdims=True)
    return means


def _nearest(points: Floats, centroids: Floats) -> Ints:
    """(N,) numbered without gaps: a centroid that is nobody's nearest is gone."""
    nearest = np.argmin(_squared_distances(points, centroids), axis=1)
    return np.unique(nearest, return_inverse=True)[1]


def _squared_distances(points: Floats, others: Floats) -> Floats:
    """(N, G); what rounding leaves between equal points is no distance."""
    lengths = np.square(points).sum(axis=1)[:, None] + np.square(others).sum(axis=1)
    apart = lengths - 2 * points @ others.T
    result: Floats = np.where(apart > 1e-12 * lengths, apart, 0.0)
    return result
