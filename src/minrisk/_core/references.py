"""Plain data: references of one segment that come in shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.segment import checked_counts, checked_texts, checked_weights

BLOCK = 1 << 13  # references that are held at a time


@dataclass(frozen=True, eq=False)
class References:
    """Some references of a segment; each counts one unless they are weighted.

    Args:
        texts: the references.
        weights: one per text; 1 unless given.
        counts: how many equal references each text stands for; 1 unless given.
        name: what messages call them.

    >>> References(["a", "b"], weights=[1, 3], counts=[2, 1]).mass().tolist()
    [2.0, 3.0]
    """

    texts: Sequence[str]
    weights: npt.ArrayLike | None = None
    counts: npt.ArrayLike | None = None  # a text with a count of k is k equal references
    name: str = "references"  # for messages

    def blocks(self) -> Iterator[References]:
        """A shard by itself."""
        try:
            texts = checked_texts(self.texts, "references")
            weights = None if self.weights is None else checked_weights(self.weights, len(texts))
            counts = None if self.counts is None else checked_counts(self.counts, len(texts))
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
        for start in range(0, len(texts), BLOCK):
            rows = slice(start, start + BLOCK)
            yield References(texts[rows], None if weights is None else weights[rows],
                             None if counts is None else counts[rows], self.name)

    def mass(self) -> Floats:
        """(R,) how much each counts, as it is."""
        mass: Floats = np.ones(len(self.texts))
        for given in (self.weights, self.counts):
            mass = mass if given is None else mass * np.asarray(given, np.float64)
        return mass


@runtime_checkable
class Shard(Protocol):
    """Where references come from. It can be pickled, and whoever needs them reads them there."""

    @property
    def name(self) -> str: ...

    def blocks(self) -> Iterable[References]: ...
