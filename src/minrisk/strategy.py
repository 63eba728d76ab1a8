"""What a strategy must offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

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
