"""Random numbers of each sample, independent of its batch."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.sampler import check_numbers


class RandomStream:
    """Uniform numbers in [0, 1) for n samples, generated for several steps at a time."""

    steps: ClassVar[int] = 16  # steps per call of `next_steps`

    def __init__(self, seed: int, index: int, n: int) -> None:
        check_numbers(n, seed)
        self._generator = np.random.default_rng([seed, index])
        self._n = n

    def next_steps(self) -> Floats:
        """(steps, n)"""
        return self._generator.random((self.steps, self._n))
