"""Levenshtein similarity through RapidFuzz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.metric import Metric
from minrisk._core.options import option
from minrisk._core.threads import threads
from minrisk.metrics._base import Objects, objects


@dataclass(frozen=True)
class Edit(Metric[Objects]):
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

    unit: Literal["character", "word"] = option("character", help="unit of an edit")
    lowercase: bool = option(False, help="ignore case")

    def prepare(self) -> None:
        one = self.features(["a"])
        self.scores(one, one)

    def features(self, texts: Sequence[str]) -> Objects:
        prepared = (text.lower() if self.lowercase else text for text in texts)
        return objects(text.split() if self.unit == "word" else text for text in prepared)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) similarity of every pair, 0 to 1."""
        with needs_extra("the 'edit' metric", "edit"):
            from rapidfuzz.distance import Levenshtein
            from rapidfuzz.process import cdist
        result: Floats = cdist(hyps, refs, scorer=Levenshtein.normalized_similarity,
                               dtype=np.float64, workers=threads())
        return result
