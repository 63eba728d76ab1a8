"""Plain data: references of one segment that come in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording
from minrisk._core.weights import checked_counts, checked_texts, checked_weights

BLOCK = 1 << 13  # references in memory at a time


@dataclass(frozen=True, eq=False)
class References:
    """A part of the references of a segment, with their weights or counts.

    Weights of all parts are on one scale; those of `decode_parts` need not sum to 1.

    Args:
        texts: the references.
        weights: one per text; 1 unless given.
        counts: number of equal references that each text stands for; 1 unless given.
        name: their name in messages.

    Raises:
        InputError: when they are used, if the lists differ in length or hold other values.

    >>> References(["a", "b"], weights=[1, 3], counts=[2, 1]).mass().tolist()
    [2.0, 3.0]
    """

    texts: Sequence[str]
    weights: npt.ArrayLike | None = None
    counts: npt.ArrayLike | None = None  # a text with a count of k is k equal references
    name: str = "references"  # for messages

    def blocks(self) -> Iterator[References]:
        """The same references in blocks that fit into memory, checked."""
        try:
            texts = checked_texts(self.texts, "references")
            weights = None if self.weights is None else checked_weights(self.weights, len(texts))
            counts = None if self.counts is None else checked_counts(self.counts, len(texts))
        except InputError as error:
            raise InputError(Wording("{name}: {error}", name=self.name, error=error)) from None
        for start in range(0, len(texts), BLOCK):
            rows = slice(start, start + BLOCK)
            yield References(texts[rows], None if weights is None else weights[rows],
                             None if counts is None else counts[rows], self.name)

    def mass(self) -> Floats:
        """(R,) weight times count of each reference, not normalised."""
        mass: Floats = np.ones(len(self.texts))
        for given in (self.weights, self.counts):
            mass = mass if given is None else mass * np.asarray(given, np.float64)
        return mass


@runtime_checkable
class ReferencePart(Protocol):
    """A part of the references of a segment; it can be pickled, and is read by a worker."""

    @property
    def name(self) -> str: ...

    def blocks(self) -> Iterable[References]: ...
