"""Metrics of a few lines that tests understand, texts for them, and scores of any metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import minrisk


def scores(metric, hyps, refs, source=None):
    """The score of each hypothesis with each reference."""
    return metric.scores(metric.features(hyps), metric.features(refs),
                         None if source is None else metric.features([source]))


class Counting:
    """Closeness in length; counts the pairs that it is asked for."""

    name = "counting"
    needs_source = True

    def __init__(self) -> None:
        self.pairs = 0

    def features(self, texts):
        return np.array([[len(t), t.count("a")] for t in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        self.pairs += len(hyps) * len(refs)
        return -np.abs(hyps[:, None] - refs[None]).sum(axis=2)

    def aggregate(self, refs, groups):
        total = np.zeros((len(groups), refs.shape[1]))
        np.add.at(total, groups.labels, groups.share[:, None] * refs)
        return total

    def vectors(self, features):
        return features

    def quality(self, hyps, source):
        self.pairs += len(hyps)
        return -np.abs(hyps - source).sum(axis=1)

    def choose(self, hyps, counts, source):
        """The hypothesis that is nearest to most samples."""
        self.pairs += len(hyps)
        return int(np.argmin(np.abs(hyps[:, None] - hyps[None]).sum(axis=2) @ counts))

    def fuse(self, hyps, counts, source):
        self.pairs += len(hyps)
        return "the cat sat"


@dataclass
class Plane:
    """tanh made linear around the mean."""

    hyps: np.ndarray
    centre: np.ndarray

    @property
    def mean(self):
        return np.tanh(self.centre)

    def at(self, refs):
        z = self.hyps[:, None] - refs[None]
        slope = 1 - np.tanh(self.centre) ** 2
        return self.mean[:, None] + slope[:, None] * (z - self.centre[:, None])


class Curved:
    """A metric that is not linear in its references, with a surrogate that is."""

    name = "curved"

    def features(self, texts):
        return np.array([t.count("a") - 0.5 * len(t) for t in texts])

    def scores(self, hyps, refs, source=None):
        return np.tanh(hyps[:, None] - refs[None])

    def vectors(self, features):
        return features[:, None]

    def surrogate(self, hyps, refs, mass, source=None):
        return Plane(hyps, hyps - refs @ mass)


@dataclass(frozen=True)
class Common:
    """How many letters two texts have in common, if the source allows them; no statistics."""

    name: ClassVar[str] = "common"
    needs_source: ClassVar[bool] = True

    def features(self, texts):
        return np.array([[letter in text for letter in "abcd"] for text in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        return (hyps * source) @ refs.T


@dataclass(frozen=True)
class Shared(Common):
    """Judges by the source alone."""

    name: ClassVar[str] = "shared"

    def quality(self, hyps, source):
        return (hyps @ source.T)[:, 0]


def many(count: int = 60, seed: int = 0) -> list[str]:
    """Texts that share words, some of them equal."""
    words = ["the", "cat", "sat", "on", "a", "mat", "dog", "and", "ran"]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, size=rng.integers(2, 7))) for _ in range(count)]


class Median:
    """A strategy whose utility is no mean."""

    name = "median"
    metric = minrisk.ChrF()

    def rank(self, segments):
        pools = minrisk.bind(self.metric, segments)
        return [pool.ranking(np.median(pool.scores(), axis=1)) for pool in pools]
