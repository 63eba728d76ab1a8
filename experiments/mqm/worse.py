"""Translations made worse on purpose: samples have faults that no judged system has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from data import Judgement
from scoring import by_source

WORST = 20.0  # off the score of a translation none of whose words are left as they were
SHARE = (0.1, 0.9)  # of the words that are spoilt
_LEAST = 4  # words


def worsened(rows: Sequence[Judgement], rng: np.random.Generator) -> list[Judgement]:
    """One translation of each source cut off, one with holes, one that repeats itself."""
    found = []
    for places in by_source(rows):
        for spoil in (_cut_off, _with_holes, _repeating):
            row = rows[rng.choice(places)]
            words = row.hypothesis.split()
            if len(words) >= _LEAST:
                count = max(1, int(rng.uniform(*SHARE) * len(words)))
                found.append(replace(row, hypothesis=" ".join(spoil(words, count, rng)),
                                     score=row.score - WORST * count / len(words)))
    return found


def _cut_off(words: list[str], count: int, rng: np.random.Generator) -> list[str]:
    return words[:-count]


def _with_holes(words: list[str], count: int, rng: np.random.Generator) -> list[str]:
    holes = set(rng.choice(len(words), count, replace=False))
    return [word for place, word in enumerate(words) if place not in holes]


def _repeating(words: list[str], count: int, rng: np.random.Generator) -> list[str]:
    start = rng.integers(len(words) - count + 1)
    return words[:start + count] + words[start:]
