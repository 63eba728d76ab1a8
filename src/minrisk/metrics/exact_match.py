"""Votes: two texts agree if their answers do (self-consistency, Wang et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from minrisk.arrays import Floats, Ints, sums
from minrisk.errors import InputError
from minrisk.groups import Groups
from minrisk.metric import Ability, Evidence, Metric
from minrisk.metrics._objects import objects
from minrisk.options import option
from minrisk.rows import WeightedRows

_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?|[-+]?\.\d+")


@dataclass(frozen=True)
class ExactMatch(Metric[WeightedRows]):
    """1 where two texts give the same answer, else 0: a vote among reasoned answers"""

    name: ClassVar[str] = "exact-match"
    abilities: ClassVar[Ability] = Ability.AVERAGES | Ability.PARTIAL_STATISTICS

    pattern: str | None = option(
        None, help="regular expression of the answer (its first group, if any); the whole text")
    pick: Literal["first", "last"] = option("last", help="which match of the pattern")
    lowercase: bool = option(False, help="ignore case")
    whitespace: bool = option(False, help="white space must agree too")
    numbers: bool = option(False, help="compare numbers by value: 1,000.0 is 1000")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise InputError(f"exact-match: pattern {self.pattern!r} is no regular expression: "
                             f"{error}") from None

    def features(self, texts: Sequence[str]) -> WeightedRows:
        answers = objects(self.answer(text) for text in texts)
        return WeightedRows.plain(self, answers, np.arange(len(texts)))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) whether answers agree; against an aggregate, the share of it that agrees."""
        ours, theirs, count = self._numbered(hyps, refs)
        votes = np.zeros((len(refs), count))
        np.add.at(votes, (_row_of_each_member(refs), theirs), refs.weights)
        votes[:, 0] = 0  # no answer matches nothing, not even another one
        return votes.T[ours]

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`: the votes for each answer, counted once."""
        ours, theirs, count = self._numbered(hyps, refs)
        votes = sums(theirs, refs.spread(mass), count)
        votes[0] = 0
        return votes[ours]

    def evidence(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Evidence:
        """(H,) votes, which add up."""
        return self.utility(hyps, refs, weights)

    def verdict(self, hyps: WeightedRows, evidence: Evidence, source: object = None) -> Floats:
        return evidence

    def _numbered(self, hyps: WeightedRows, refs: WeightedRows) -> tuple[Ints, Ints, int]:
        """The answers of either side as numbers, and how many there are; 0 is none."""
        hyps.check(self)
        refs.check(self)
        numbers: dict[str | None, int] = {None: 0}
        ours, theirs = (np.array([numbers.setdefault(answer, len(numbers))
                                  for answer in side.base[side.members]], np.intp)
                        for side in (hyps, refs))
        return ours, theirs, len(numbers)

    def answer(self, text: str) -> str | None:
        """What of a text is compared, if it is there."""
        found = self._find(text)
        if found is None:
            return None
        if not self.whitespace:
            found = " ".join(found.split())
        if self.lowercase:
            found = found.lower()
        return _value(found) if self.numbers else found

    def _find(self, text: str) -> str | None:
        if self._expression is None:
            return text
        matches = list(self._expression.finditer(text))
        if not matches:
            return None
        match = matches[0 if self.pick == "first" else -1]
        # of alternatives with a group each, the one that matched
        return next((group for group in match.groups() if group is not None), match[0])

    @cached_property
    def _expression(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern) if self.pattern else None


def _row_of_each_member(rows: WeightedRows) -> Ints:
    return np.repeat(np.arange(len(rows)), np.diff(rows.offsets))


def _value(text: str) -> str:
    """A number as it is written shortest; anything else as it is."""
    if not _NUMBER.fullmatch(text):
        return text
    value = Decimal(text.replace(",", "")).normalize()
    return f"{value + 0:f}"  # plus 0 has no sign of its own
