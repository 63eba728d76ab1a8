"""Unequal chances: draw some of weighted things so that what is drawn stands for all, unbiased.

With the chance of each in proportion to its mass, a sum over what was drawn, each divided by its
chance (Horvitz & Thompson 1952), has the sum over all as its mean; and what has much mass is drawn
for certain.
"""

from __future__ import annotations

import numpy as np

from minrisk.arrays import Floats, Ints


def chances(mass: Floats, size: int) -> Floats:
    """(N,) in proportion to mass, none above 1, that add up to the size."""
    if size >= mass.size:
        return np.ones_like(mass)
    sure = np.zeros(mass.size, dtype=bool)
    while True:
        chance = np.where(sure, 1.0, mass * (size - sure.sum()) / mass[~sure].sum())
        if chance.max() <= 1:
            return chance
        sure |= chance > 1


def drawn(chance: Floats, order: Ints, start: float) -> Ints:
    """Systematic sampling: every whole step on the line of chances, from a random start in [0, 1).

    In random order any two can be drawn together.
    """
    line = start + np.concatenate([[0.0], np.cumsum(chance[order])])
    return np.sort(order[np.diff(np.floor(line)) > 0])
