"""Optimal transport: the best matching of two weighted sets, exactly or by Sinkhorn's iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minrisk._core.arrays import Floats, Ints

_MAX_ITERATIONS = 2000
_MARGIN_ERROR = 1e-7  # error of the marginals at which the iteration stops
_ITERATIONS_PER_CHECK = 10


def exact_transport(scores: Floats, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """The maximum mean score of a transport plan between n and m items with integer weights.

    Weights are normalised by their sums. Successive shortest paths, in integers, so that no mass is
    lost: each path moves mass from a row to the nearest column with room, by reduced costs, and may
    reroute mass that is in full columns.
    """
    total = sum(ours) * sum(theirs)
    costs = (scores.max() - scores).tolist()
    supply = [weight * sum(theirs) for weight in ours]
    demand = [weight * sum(ours) for weight in theirs]
    flow = [[0] * len(demand) for _ in supply]
    row_price, column_price = [0.0] * len(supply), [0.0] * len(demand)
    for row in range(len(supply)):
        while supply[row]:
            path, moved = _shortest_path(row, costs, flow, demand, row_price, column_price)
            moved = min(moved, supply[row])
            supply[row] -= moved
            demand[path[-1][1]] -= moved
            for place, (i, j) in enumerate(path):
                flow[i][j] += moved if place % 2 == 0 else -moved
    return float((np.array(flow, np.float64) * scores).sum() / total)


def _shortest_path(row: int, costs: list[list[float]], flow: list[list[int]], demand: list[int],
                   row_price: list[float],
                   column_price: list[float]) -> tuple[list[tuple[int, int]], int]:
    """The shortest augmenting path from a row to a column with room: entries to add to and,
    alternating, to take from. Also the maximum mass that it can carry.

    Dijkstra's algorithm on reduced costs, which the prices keep non-negative; it updates them.
    """
    columns = range(len(demand))
    distance = [costs[row][j] - row_price[row] - column_price[j] for j in columns]
    came_from = [row] * len(demand)  # column -> previous row on the path
    reached = {row: 0.0}  # row -> distance
    column_before: dict[int, int] = {}
    done: list[int] = []
    while True:
        nearest = min((j for j in columns if j not in done), key=distance.__getitem__)
        done.append(nearest)
        length = distance[nearest]
        if demand[nearest]:
            break
        for i in range(len(flow)):
            if flow[i][nearest] and i not in reached:
                reached[i], column_before[i] = length, nearest
                for j in columns:
                    through = length + costs[i][j] - row_price[i] - column_price[j]
                    if j not in done and through < distance[j]:
                        distance[j], came_from[j] = through, i
    for i, own in reached.items():
        row_price[i] += length - own
    for j in done:
        column_price[j] -= length - distance[j]
    path, moved, column = [], demand[nearest], nearest
    while True:
        i = came_from[column]
        path.append((i, column))
        if i == row:
            return path[::-1], moved
        column = column_before[i]
        path.append((i, column))
        moved = min(moved, flow[i][column])


def sinkhorn_transport(scores: Floats, ours: Floats, theirs: Floats,
                       regularization: float) -> Floats:
    """(K,) mean scores of the transport plans of K pairs (K, n, m), with weights (K, n), (K, m).

    The entropy of a plan is weighted by `regularization` times the range of its scores (Cuturi
    2013). Each pair is iterated until its own plan converges, independently of the others.
    """
    highest = scores.max(axis=(1, 2), keepdims=True)
    size = highest - scores.min(axis=(1, 2), keepdims=True)
    kernel = np.exp((scores - highest) / (regularization * np.where(size > 0, size, 1.0)))
    result = np.empty(len(scores))
    active: Ints = np.arange(len(scores))
    right = np.ones_like(theirs)
    for _ in range(_MAX_ITERATIONS // _ITERATIONS_PER_CHECK):
        gibbs = kernel[active]
        for _ in range(_ITERATIONS_PER_CHECK):
            left = ours[active] / (gibbs @ right[:, :, None])[:, :, 0]
            right = theirs[active] / (left[:, None] @ gibbs)[:, 0]
        plan = left[:, :, None] * gibbs * right[:, None]
        result[active] = (plan * scores[active]).sum(axis=(1, 2)) / plan.sum(axis=(1, 2))
        wrong = np.abs(plan.sum(axis=2) - ours[active]).max(axis=1) > _MARGIN_ERROR
        active, right = active[wrong], right[wrong]
        if not active.size:
            break
    return result
