"""Votes by outcomes: two programs agree if they printed the same, whatever their text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minrisk.metrics.exact_match import ExactMatch


@dataclass(frozen=True)
class Outcomes(ExactMatch):
    """1 where two samples had the same outcome, else 0: a vote by what programs print

    Outcomes are given with the samples, as the field `outcomes` of JSON lines or the argument of
    that name: what each sample printed or returned when you executed it. Nothing is executed here.
    Samples whose outcome is null or blank agree with none. References, where there are some, are
    outcomes too. MBR-EXEC (Shi et al. 2022) and AlphaCode (Li et al. 2022) choose by such votes.

    Args:
        pattern: regular expression of the part of an outcome that counts, which is its first group
            that matched, if it has one; None is the whole outcome.
        pick: match of the pattern that counts, "first" or "last".
        lowercase: whether case is ignored.
        whitespace: whether white space is compared too.
        numbers: whether numbers are compared by value, so that 1,000.0 is 1000.

    Raises:
        InputError: if the pattern is not a regular expression; when it is used, if a segment has no
            outcomes.

    >>> import minrisk
    >>> programs = ["print(2 + 2)", "print(2 * 3)", "print(4)", "print(2 +)"]
    >>> minrisk.decode(programs, outcomes=["4", "6", "4", None], metric="outcomes").utility
    array([0.5 , 0.25, 0.5 , 0.  ])
    """

    name: ClassVar[str] = "outcomes"
    papers: ClassVar[tuple[str, ...]] = ("Shi et al. 2022",)
    cost: ClassVar[str] = "n + m outcomes; votes are counted"
    compares_outcomes: ClassVar[bool] = True

    def answer(self, text: str) -> str | None:
        return super().answer(text) if text.strip() else None
