"""Random numbers of each sample, whatever batch it is in."""

from __future__ import annotations

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.sampler import check_numbers

_STEPS_PER_BLOCK = 16  # for which numbers are generated together


class RandomStream:
    """Uniform numbers from [0, 1) for n samples at every step; steps must come in order."""

    def __init__(self, seed: int, index: int, n: int) -> None:
        check_numbers(n, seed)
        self._generator = np.random.default_rng([seed, index])
        self._n = n
        self._block: Floats = np.empty((0, n))

    def __call__(self, step: int) -> Floats:
        row = step % _STEPS_PER_BLOCK
        if row == 0:
            self._block = self._generator.random((_STEPS_PER_BLOCK, self._n))
        numbers: Floats = self._block[row]
        return numbers
