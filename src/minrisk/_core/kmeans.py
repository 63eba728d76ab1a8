"""Weighted k-means with k-means++ initialisation (Arthur & Vassilvitskii 2007).

Points are a NumPy array, or a torch tensor on any device: arrays of size (N, D) stay on the device,
and only (N,) arrays are copied to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints, Points

_ROUNDING = {4: 1e-5, 8: 1e-12}  # relative error of a distance, by the bytes of a float


def kmeans(points: Points, weights: Floats, count: int, iterations: int,
           rng: np.random.Generator) -> Ints:
    """(N,) the cluster of each point; there are `count` clusters, or fewer if points are equal."""
    points = points - points.mean(0)  # centred, so that distances are not small relative to norms
    labels = _nearest(points, points[_seeds(points, weights, count, rng)])
    for _ in range(iterations):
        before, labels = labels, _nearest(points, _means(points, weights, labels))
        if np.array_equal(before, labels):
            break
    return labels


def _seeds(points: Points, weights: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """k-means++: seeds are sampled by weight times squared distance to the nearest seed."""
    chosen: list[int] = []
    probability = weights
    distance = np.full(len(points), np.inf)
    while len(chosen) < count and probability.any():
        chosen.append(int(rng.choice(len(points), p=probability / probability.sum())))
        nearest = _on_host(_squared_distances(points, points[chosen[-1:]])[:, 0])
        distance = np.minimum(distance, nearest)
        probability = weights * distance
    return chosen


def _means(points: Points, weights: Floats, labels: Ints) -> Points:
    """(G, D) weighted means of the clusters; a cluster without weight has the plain mean."""
    member = labels == np.arange(labels.max() + 1)[:, None]  # (G, N)
    weighted = member * weights
    share = np.where(weighted.any(axis=1, keepdims=True), weighted, member)
    share = share / share.sum(axis=1, keepdims=True)
    return (share if isinstance(points, np.ndarray) else points.new_tensor(share)) @ points


def _nearest(points: Points, centroids: Points) -> Ints:
    """(N,) the nearest centroid of each point, numbered without gaps; empty clusters vanish."""
    nearest = _on_host(_squared_distances(points, centroids).argmin(1))
    return np.unique(nearest, return_inverse=True)[1]


def _squared_distances(points: Points, others: Points) -> Points:
    """(N, G) squared distances; those within rounding error are 0."""
    norms = (points * points).sum(1)[:, None] + (others * others).sum(1)
    distances = norms - 2 * points @ others.T
    return distances * (distances > _ROUNDING[points.itemsize] * norms)


def _on_host(values: Points) -> Any:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
