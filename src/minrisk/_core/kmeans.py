"""k-means with k-means++ (Arthur & Vassilvitskii 2007) of weighted points.

Points are a NumPy array, or a torch tensor on any device: what is of their size stays there, and
the host gets a number for each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints, Points

_NOTHING = {4: 1e-5, 8: 1e-12}  # what rounding makes of lengths, by the bytes of a number


def kmeans(points: Points, weights: Floats, count: int, iterations: int,
           rng: np.random.Generator) -> Ints:
    """(N,) the cluster of each point: `count` of them, or fewer where points are equal."""
    points = points - points.mean(0)  # so that distances are not small beside lengths
    labels = _nearest(points, points[_seeds(points, weights, count, rng)])
    for _ in range(iterations):
        before, labels = labels, _nearest(points, _means(points, weights, labels))
        if np.array_equal(before, labels):
            break
    return labels


def _seeds(points: Points, weights: Floats, count: int, rng: np.random.Generator) -> list[int]:
    """Points far from each other: drawn by weight, and the squared distance to those before."""
    chosen: list[int] = []
    chance = weights
    apart = np.full(len(points), np.inf)
    while len(chosen) < count and chance.any():
        chosen.append(int(rng.choice(len(points), p=chance / chance.sum())))
        apart = np.minimum(apart, _on_host(_apart(points, points[chosen[-1:]])[:, 0]))
        chance = weights * apart
    return chosen


def _means(points: Points, weights: Floats, labels: Ints) -> Points:
    """(G, D) of the clusters; one without weight is averaged evenly."""
    member = labels == np.arange(labels.max() + 1)[:, None]  # (G, N)
    weighted = member * weights
    share = np.where(weighted.any(axis=1, keepdims=True), weighted, member)
    share = share / share.sum(axis=1, keepdims=True)
    return (share if isinstance(points, np.ndarray) else points.new_tensor(share)) @ points


def _nearest(points: Points, centroids: Points) -> Ints:
    """(N,) numbered without gaps: a centroid that is nearest to no point is gone."""
    nearest = _on_host(_apart(points, centroids).argmin(1))
    return np.unique(nearest, return_inverse=True)[1]


def _apart(points: Points, others: Points) -> Points:
    """(N, G) squared distances; what rounding leaves between equal points is none."""
    lengths = (points * points).sum(1)[:, None] + (others * others).sum(1)
    apart = lengths - 2 * points @ others.T
    return apart * (apart > _NOTHING[points.itemsize] * lengths)


def _on_host(values: Points) -> Any:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
