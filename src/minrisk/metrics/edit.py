"""Levenshtein similarity through RapidFuzz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from minrisk._core.arrays import Floats
from minrisk._core.metric import Metric
from minrisk._core.options import option
from minrisk.metrics._rapidfuzz import TokenSequences, all_pairs


@dataclass(frozen=True)
class Edit(Metric[TokenSequences]):
    """1 minus the edit distance as a share of the longer text; needs minrisk[edit]

    The normalised Levenshtein similarity of RapidFuzz, 0 to 1.

    Args:
        unit: unit of an edit, "character" or "word".
        lowercase: whether case is ignored.

    >>> import minrisk
    >>> edit = minrisk.Edit(unit="word")
    >>> edit.scores(edit.features(["the cat sat down"]), edit.features(["the cat sat there"]))
    array([[0.75]])
    """

    name: ClassVar[str] = "edit"
    papers: ClassVar[tuple[str, ...]] = ("Levenshtein 1966",)
    cost: ClassVar[str] = "n · m edit distances"

    unit: Literal["character", "word"] = option("character", help="unit of an edit")
    lowercase: bool = option(False, help="ignore case")

    def prepare(self) -> None:
        one = self.features(["a"])
        self.scores(one, one)

    def features(self, texts: Sequence[str]) -> TokenSequences:
        prepared = (text.lower() if self.lowercase else text for text in texts)
        if self.unit == "word":
            return TokenSequences.of_words(text.split() for text in prepared)
        return TokenSequences.of_characters(prepared)

    def scores(self, hyps: TokenSequences, refs: TokenSequences, source: object = None) -> Floats:
        """(H, R) similarity of every pair, 0 to 1."""
        return all_pairs(hyps, refs, "Levenshtein.normalized_similarity", self.name, "edit")
