"""What a strategy must offer, and the random choices that strategies share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from minrisk.arrays import Floats, Ints
from minrisk.errors import InputError
from minrisk.segment import Ranking, Segment


class Strategy(Protocol):
    """Ranks the hypotheses of each segment. It takes a batch, so that stages batch too."""

    @property
    def name(self) -> str: ...

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]: ...


def segment_rng(seed: int, segment: Segment) -> np.random.Generator:
    """One random stream per segment: the answer is the same in any batch, on any worker."""
    if seed < 0:
        raise InputError(f"seed {seed}; a number from 0 on is wanted")
    return np.random.default_rng([seed, segment.index])


def check_budget(budget: float) -> None:
    if not 0 < budget <= 1:
        raise InputError(f"a budget of {budget}; a share of all pairs is wanted, above 0, up to 1")


def shuffled(segment: Segment, rng: np.random.Generator | None) -> Ints:
    """(R,) the references in random order, or in their own if there is no generator."""
    count = len(segment.references)
    order = np.arange(count) if rng is None else rng.permutation(count)
    # those without weight come last: a subset of nothing else could not judge
    return order[np.argsort(segment.weights[order] == 0, kind="stable")]


def resampled(weights: Floats, count: int,
              rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """(count, R) what references weigh in resamples of them.

    The Bayesian bootstrap (Rubin 1981): weights vary as counts in the plain one do, but no
    reference is ever lost, however few there are or however much one of them weighs.
    """
    drawn = rng.standard_exponential((count, weights.size), np.float32)
    drawn *= weights  # in single precision, which is enough for chances
    drawn /= drawn.sum(axis=1, keepdims=True)
    return drawn
