"""Majority votes among extracted answers, or among the outputs of programs.

Self-consistency (Wang et al. 2023).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from minrisk._core.arrays import Floats, Ints, numbered, objects, sums
from minrisk._core.errors import warn
from minrisk._core.groups import Groups, WeightedRows, check_rows
from minrisk._core.lazy import lazy
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.options import option
from minrisk._core.vote import answer_pattern, find_answer

_NUMBER = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+|\d*)(?:\.(\d*))?")


class _Answer(NamedTuple):
    """The answer of a text as a sample, and as a given reference."""

    own: str | None
    given: str | None  # falls back to the whole text, because gold answers may be plain


@dataclass(frozen=True)
class ExactMatch(Metric[WeightedRows]):
    """1 if two texts give the same answer, else 0: a majority vote over extracted answers.

    Utilities are shares of the votes: self-consistency (Wang et al. 2023). A sample that the
    pattern does not match has no answer and agrees with no text. A given reference that it does not
    match is an answer as a whole, so that gold answers may be plain.

    Args:
        pattern: regular expression of the answer, or of its first matching group. None is the whole
            text. Write groups that are only a part of the answer as (?:...).
        pick: which match of the pattern is the answer, "first" or "last".
        lowercase: ignore case.
        whitespace: compare whitespace too.
        numbers: compare numbers by value, so that 1,000.0 equals 1000.

    Raises:
        InputError: if the pattern is not a regular expression, or it is ambiguous which group is
            the answer, as in (-)?(\\d+).

    >>> import minrisk
    >>> vote = minrisk.ExactMatch(pattern="answer is (.*)", numbers=True)
    >>> samples = ["3 + 4, the answer is 7", "the answer is 8", "so the answer is 7.0"]
    >>> minrisk.decode(samples, metric=vote).utility.round(2)
    array([0.67, 0.33, 0.67])
    """

    name = "exact-match"
    papers = ("Wang et al. 2023",)
    cost = "n + m answers; votes are counted"
    is_vote = True

    pattern: str | None = option(None)
    pick: Literal["first", "last"] = option("last")
    lowercase: bool = option(False)
    whitespace: bool = option(False)
    numbers: bool = option(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        answer_pattern(self.pattern or "", f"{self.name}: pattern")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        answers = [self._answers_in_roles(text) for text in texts]
        if self.pattern and texts and all(answer.own is None for answer in answers):
            warn(f"{self.name}: the pattern {self.pattern} matches none of {len(texts)} texts, so "
                 "no sample has a vote; check the pattern against the samples")
        return WeightedRows.plain(self, objects(answers))

    def as_given(self, refs: WeightedRows) -> WeightedRows:
        """Use the whole text as the answer if the pattern does not match."""
        check_rows(self, refs)
        given = objects(answer._replace(own=answer.given) for answer in refs.base[refs.members])
        return replace(refs, base=given, members=np.arange(given.size))

    def answers(self, features: WeightedRows) -> list[str | None]:
        """(N,) the answer of each text."""
        check_rows(self, features)
        return [answer.own for answer in features.base[features.members]]

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) 1 for equal answers, else 0; for an aggregate, the share that is equal."""
        ours, theirs, count = self._answer_numbers(hyps, refs)
        votes = np.zeros((len(refs), count))
        np.add.at(votes, (refs.rows, theirs), refs.weights)
        votes[:, 0] = 0  # a missing answer does not even match another missing one
        return votes.T[ours]

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`: the votes for each answer, counted once."""
        ours, theirs, count = self._answer_numbers(hyps, refs)
        votes = sums(theirs, refs.spread(mass), count)
        votes[0] = 0
        return votes[ours]

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        """(H,) votes, which add up over parts."""
        return self.utility(hyps, refs, weights)

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: object = None) -> Floats:
        return statistics

    def _answer_numbers(self, hyps: WeightedRows, refs: WeightedRows) -> tuple[Ints, Ints, int]:
        """Integer labels of the answers on both sides (0: no answer), and the number of labels."""
        numbers: dict[str | None, int] = {None: 0}
        ours, theirs = (numbered(self.answers(side), numbers) for side in (hyps, refs))
        return ours, theirs, len(numbers)

    def answer(self, text: str) -> str | None:
        """The answer of a text, or None."""
        expression = self._expression
        match = text if expression is None else find_answer(expression, text, self.pick)
        return None if match is None else self._normalised(match)

    def _answers_in_roles(self, text: str) -> _Answer:
        answer = self.answer(text)
        return _Answer(answer, self._normalised(text) or None if answer is None else answer)

    def _normalised(self, answer: str) -> str:
        if not self.whitespace:
            answer = " ".join(answer.split())
        if self.lowercase:
            answer = answer.lower()
        return canonical_number(answer) if self.numbers else answer

    @lazy
    def _expression(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern) if self.pattern else None


def canonical_number(text: str) -> str:
    """A number in its shortest form; any other text unchanged.

    Works on the digits, because arithmetic would round long numbers.
    """
    match = _NUMBER.fullmatch(text)
    if not match or not (match[2] or match[3]):
        return text
    sign, whole, fraction = match.groups(default="")
    value = f"{_ascii(whole).lstrip('0') or '0'}.{_ascii(fraction)}".rstrip("0").rstrip(".")
    return f"-{value}" if sign == "-" and value != "0" else value


def _ascii(digits: str) -> str:
    """The same digits, of any script, as 0 to 9 and without commas."""
    return "".join(str(int(digit)) for digit in digits if digit != ",")


@dataclass(frozen=True)
class Outcomes(ExactMatch):
    """1 if two samples had the same outcome, else 0: a vote over what programs print.

    Outcomes are given with the samples, as the field `outcomes` of JSON lines or the argument of
    that name: what each sample printed or returned when you executed it. Nothing is executed here.
    Samples whose outcome is null or blank agree with no other. Separate references are outcomes,
    too. MBR-EXEC (Shi et al. 2022) and AlphaCode (Li et al. 2022) use such votes.

    Args:
        pattern: regular expression of the part to compare, or of its first matching group. None is
            the whole outcome.
        pick: which match of the pattern to compare, "first" or "last".
        lowercase: ignore case.
        whitespace: compare whitespace too.
        numbers: compare numbers by value, so that 1,000.0 equals 1000.

    Raises:
        InputError: if the pattern is not a regular expression; when it is used, if a segment has no
            outcomes.

    >>> import minrisk
    >>> programs = ["print(2 + 2)", "print(2 * 3)", "print(4)", "print(2 +)"]
    >>> minrisk.decode(programs, outcomes=["4", "6", "4", None], metric="outcomes").utility
    array([0.5 , 0.25, 0.5 , 0.  ])
    """

    name = "outcomes"
    papers = ("Shi et al. 2022",)
    cost = "n + m outcomes; votes are counted"
    compares_outcomes = True

    def answer(self, text: str) -> str | None:
        return super().answer(text) if text.strip() else None
