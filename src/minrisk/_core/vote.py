"""Early stopping of majority votes: enough samples agree that more would not change the answer.

Answers are draws from a categorical distribution, and the vote estimates its mode. The sequential
test may be applied after every draw without exceeding its error rate: for each pair of answers, the
likelihood ratio of "the first is more frequent" against "as frequent", mixed over all frequencies,
is a martingale (Jain et al., 2022: PPR martingale confidence sequences; Ville 1939).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import compress
from math import exp, fsum, lgamma, log
from re import _parser  # type: ignore[attr-defined]  # what a pattern consists of
from typing import Any, Literal, Protocol, runtime_checkable

from minrisk._core.errors import InputError

_SMALLEST_WAVE = 4  # samples


@runtime_checkable
class Voting(Protocol):
    """A metric that compares answers for equality."""

    @property
    def is_vote(self) -> bool: ...

    @property
    def compares_outcomes(self) -> bool: ...

    def answer(self, text: str) -> str | None: ...


@runtime_checkable
class PairwiseVoting(Protocol):
    """A metric that compares answers for equality, but has no canonical form of them."""

    def answer(self, text: str) -> str | None: ...

    def equal_answers(self, answer: str, others: Sequence[str]) -> list[bool]:
        """For each of the other answers, whether it is equal."""


def answer_of(metric: Any) -> Callable[[str], str | None] | None:
    """A function that extracts the answer of a text; None if the metric is not a vote.

    Use it for one vote only: it may remember the answers of earlier texts.
    """
    if isinstance(metric, PairwiseVoting):
        return AnswerClasses(metric)
    # a new sample has not been executed, so it has no outcome
    if not isinstance(metric, Voting) or metric.compares_outcomes:
        return None
    return metric.answer if metric.is_vote else None


def answer_pattern(pattern: str, name: str) -> re.Pattern[str]:
    r"""Compile the regular expression of answers, for `find_answer`.

    Raises:
        InputError: if it is invalid, or if its first group is optional and another follows: with
            (-)?(\d+), both -5 and -7 would have the answer "-".
    """
    try:
        compiled = re.compile(pattern)
        _first_groups(_parser.parse(pattern))
    except re.error as error:
        raise InputError(f"{name} {pattern!r:.60} is not a valid regular expression for answers: "
                         f"{error}") from None
    return compiled


def _first_groups(parsed: Iterable[Any]) -> tuple[set[int], bool]:
    """The groups that may be the first to participate in a match, and whether none may.

    Each alternative may have a group of its own, because only one of them matches.
    """
    firsts: set[int] = set()
    without = True
    for operation, argument in parsed:
        groups, may_be_none = _first_groups_of(str(operation), argument)
        if without and firsts and groups:
            raise re.error(f"group {min(groups)} can only be the first group if group "
                           f"{min(firsts)} is missing; write the parts of an answer as (?:...), "
                           "with one group around all of them")
        if without:
            firsts, without = firsts | groups, may_be_none
    return firsts, without


def _first_groups_of(operation: str, argument: Any) -> tuple[set[int], bool]:
    """The same for one item of a parsed pattern."""
    match operation:
        case "SUBPATTERN" if argument[0] is not None:
            return {argument[0]}, False
        case "SUBPATTERN" | "ASSERT":
            return _first_groups(argument[-1])
        case "ATOMIC_GROUP":
            return _first_groups(argument)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            groups, may_be_none = _first_groups(argument[2])
            return groups, may_be_none or argument[0] == 0
        case "BRANCH" | "GROUPREF_EXISTS":
            parts = argument[1] if operation == "BRANCH" else argument[1:]
            firsts, are_optional = zip(*(_first_groups(part or ()) for part in parts), strict=True)
            return set().union(*firsts), any(are_optional)
    return set(), True


def find_answer(pattern: re.Pattern[str], text: str,
                pick: Literal["first", "last"] = "last") -> str | None:
    r"""The first group that participated in the match, or the whole match; None without a match.

    If each alternative has a group, this is the group of the one that matched.

    >>> find_answer(re.compile(r"it is (\d+)|#### (\d+)"), "it is 5, so #### 7")
    '7'
    """
    matches = list(pattern.finditer(text))
    if not matches:
        return None
    match = matches[0 if pick == "first" else -1]
    return next((group for group in match.groups() if group is not None), match[0])


class AnswerClasses:
    """The answers of texts, in the form of the first answer that is equal."""

    def __init__(self, metric: PairwiseVoting) -> None:
        self._metric = metric
        self.classes: dict[str, str] = {}  # the first answer that equals each

    def among(self, classes: dict[str, str]) -> AnswerClasses:
        """The same for another vote, to whose answers it adds."""
        found = AnswerClasses(self._metric)
        found.classes = classes
        return found

    def __call__(self, text: str) -> str | None:
        answer = self._metric.answer(text)
        if answer is not None and answer not in self.classes:
            firsts = [*dict.fromkeys(self.classes.values())]
            are_equal = self._metric.equal_answers(answer, firsts)
            self.classes[answer] = next(compress(firsts, are_equal), answer)
        return None if answer is None else self.classes[answer]


class Vote:
    """Counts answers as they arrive, and tests whether the leader is the mode.

    The probability of stopping with an answer that is not the most probable one is at most `error`,
    however many answers there are and however often it is tested. With a fixed number of samples, a
    vote is also decided when the others cannot catch up any more.

    >>> vote = Vote(error=0.05)
    >>> for _ in range(12):
    ...     vote.add("yes")
    >>> vote.leads()
    True
    """

    def __init__(self, error: float) -> None:
        self._limit = log(1 / error)
        self._counts: Counter[Hashable] = Counter()  # in order of first appearance

    def add(self, answer: Hashable) -> None:
        """Count the answer of one more sample; None does not vote."""
        if answer is not None:
            self._counts[answer] += 1

    def is_decided(self, remaining: int) -> bool:
        """Whether sampling can stop, with at most `remaining` samples to come."""
        return self.is_settled(remaining) or self.leads()

    def is_settled(self, remaining: int) -> bool:
        """Whether no other answer can catch up with the leader."""
        first, second, _ = self._leader()
        return first > second + remaining

    def leads(self) -> bool:
        """Whether the leader is the most probable answer, at the given error rate."""
        first, second, needed = self._leader()
        return _leads(first, second, needed)

    def wave(self, drawn: int, remaining: int) -> int:
        """The number of samples to draw before the vote is looked at again.

        With fewer, it could not be decided, even if all agreed with the leader. Waves grow with
        what is drawn, so that long votes have few of them.
        """
        first, second, needed = self._leader()
        fewest = next((more for more in range(1, remaining) if _leads(first + more, second, needed)
                       or first + more > second + remaining - more), remaining)
        return min(max(_SMALLEST_WAVE, drawn // 4, fewest), remaining)

    def _leader(self) -> tuple[int, int, float]:
        """The votes of the leader and of the second answer, and the evidence that the leader needs.

        Answers are tested in the order in which they appeared, the k-th with an error of
        error / (k * (k + 1)), so that all errors add up to `error`.
        """
        votes = [*self._counts.values(), 0, 0]
        first, second, *_ = sorted(votes, reverse=True)
        place = votes.index(first) + 1
        return first, second, self._limit + log(place * (place + 1))


def _leads(first: int, second: int, needed: float) -> bool:
    """Whether the evidence for the leader is enough.

    The first sample of an answer does not count: we only test an answer because it appeared.
    """
    return first > 0 and log_evidence(first - 1, second) >= needed


@lru_cache(maxsize=1 << 14)
def log_evidence(ours: int, theirs: int) -> float:
    """The logarithm of the mean likelihood ratio over all p from 1/2 to 1, against p = 1/2.

    It is 2^(a+b) * 2 * the integral of p^a (1-p)^b from 1/2 to 1, an incomplete beta function,
    which for integers is a sum of binomial probabilities.
    """
    n = ours + theirs + 1
    beta = lgamma(ours + 1) + lgamma(theirs + 1) - lgamma(n + 1)
    # the upper half has the share P(Binomial(n, 1/2) <= a) of it; the powers of 2 cancel
    logs = [lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(ours + 1)]
    largest = max(logs)  # without which exp would overflow
    return beta + largest + log(fsum(exp(x - largest) for x in logs))
