"""Texts as sequences of tokens, and the distances of all pairs of them by RapidFuzz."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import needs_extra
from minrisk._core.threads import threads
from minrisk.metrics._base import Objects, objects

Measure = Literal["Levenshtein.distance", "Levenshtein.normalized_similarity", "LCSseq.similarity"]


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """Each text as its characters, or as words that are numbers in a common vocabulary.

    Numbers are compared several times as fast as words, so that words become numbers once.
    """

    tokens: Objects
    vocabulary: dict[str, int] | None = None  # of words

    @classmethod
    def of_characters(cls, texts: Iterable[str]) -> TokenSequences:
        return cls(objects(texts))

    @classmethod
    def of_words(cls, texts: Iterable[Iterable[str]]) -> TokenSequences:
        vocabulary: dict[str, int] = {}
        return cls(objects([vocabulary.setdefault(word, len(vocabulary)) for word in words]
                           for words in texts), vocabulary)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Ints, /) -> TokenSequences:
        return replace(self, tokens=self.tokens[rows])

    @property
    def lengths(self) -> Floats:
        """(N,) numbers of tokens."""
        return np.array([len(tokens) for tokens in self.tokens], np.float64)

    def numbered_as(self, other: TokenSequences) -> Objects:
        """The tokens with the numbers that words have in the vocabulary of other texts."""
        if self.vocabulary is None or other.vocabulary is None or (
                self.vocabulary is other.vocabulary):
            return self.tokens
        known = dict(other.vocabulary)
        number = [known.setdefault(word, len(known)) for word in self.vocabulary]
        return objects([number[token] for token in tokens] for tokens in self.tokens)


def all_pairs(hyps: TokenSequences, refs: TokenSequences, measure: Measure, metric: str,
              extra: str) -> Floats:
    """(H, R) the measure of every pair of texts; `metric` and `extra` are for messages."""
    with needs_extra(f"the {metric!r} metric", extra):
        distance, process = (import_module(f"rapidfuzz.{name}") for name in ("distance", "process"))
    algorithm, _, function = measure.partition(".")
    result: Floats = process.cdist(hyps.tokens, refs.numbered_as(hyps), dtype=np.float64,
                                   scorer=getattr(getattr(distance, algorithm), function),
                                   workers=threads())
    return result
