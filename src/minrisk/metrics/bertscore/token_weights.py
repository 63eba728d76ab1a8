"""Weights of the tokens of a text: uniform, or inverse document frequencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log

import numpy as np

from minrisk._core.arrays import Floats, Ints


@dataclass(frozen=True)
class TokenWeights:
    """The weight of each token id."""

    default: float
    by_token: Mapping[int, float]

    @classmethod
    def uniform(cls, special_ids: Iterable[int]) -> TokenWeights:
        """1 for all tokens but the special ones, which weigh 0."""
        return cls(1.0, dict.fromkeys(special_ids, 0.0))

    @classmethod
    def idf(cls, texts: Sequence[Ints]) -> TokenWeights:
        """Inverse document frequencies; special tokens, which every text has, weigh 0."""
        counts = Counter(chain.from_iterable(np.unique(ids).tolist() for ids in texts))
        size = len(texts) + 1
        return cls(log(size), {token: log(size / (count + 1)) for token, count in counts.items()})

    def of(self, ids: Ints) -> Floats:
        """(L,) weights that sum to 1, or all 0 where no token has a weight."""
        weights = np.array([self.by_token.get(token, self.default) for token in ids.tolist()])
        total = weights.sum()
        return weights / total if total > 0 else weights
