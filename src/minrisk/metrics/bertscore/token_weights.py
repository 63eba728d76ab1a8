"""How much each token of a text counts: all the same, or the rarer the more."""

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
    default: float
    by_token: Mapping[int, float]

    @classmethod
    def uniform(cls, special_ids: Iterable[int]) -> TokenWeights:
        """Marks of beginning and end do not count."""
        return cls(1.0, dict.fromkeys(special_ids, 0.0))

    @classmethod
    def idf(cls, texts: Sequence[Ints]) -> TokenWeights:
        """Inverse document frequencies; special tokens, which every text has, weigh 0."""
        counts = Counter(chain.from_iterable(np.unique(ids).tolist() for ids in texts))
        size = len(texts) + 1
        return cls(log(size), {token: log(size / (count + 1)) for token, count in counts.items()})

    def of(self, ids: Ints) -> Floats:
        """(L,) they sum to 1, or are all 0 where no token counts."""
        weights = np.array([self.by_token.get(token, self.default) for token in ids.tolist()])
        total = weights.sum()
        return weights / total if total > 0 else weights
