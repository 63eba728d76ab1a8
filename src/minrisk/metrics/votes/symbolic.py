"""Votes among short mathematical answers, which are compared by value."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import compress

import numpy as np

from minrisk._core.arrays import Floats, Objects, objects
from minrisk._core.errors import needs_extra
from minrisk._core.vote import AnswerClasses
from minrisk.metrics.user_code.command import Program
from minrisk.metrics.votes.math_answers import (
    find_answer,
    have_other_variables,
    is_formula,
    is_number,
)
from minrisk.plugins import Metric, option

_RESTARTS = 2


@dataclass(frozen=True)
class Symbolic(Metric[Objects]):
    r"""1 if two texts give the same mathematical answer, else 0; needs minrisk[math].

    The answer is the content of the last \boxed{}, or follows "answer is" or "####", or else is the
    only expression in the last sentence, unless that is truncated. 1/2 equals 0.5 and \frac{1}{2},
    50% equals 0.5, 1e3 equals 1000, and (x+1)^2 equals x^2+2x+1. A short text without such an
    answer is its own answer, in which only white space is ignored; a text of more than 300
    characters has no answer, and agrees with no other.

    Args:
        timeout: time limit of a comparison, in seconds.

    >>> Symbolic(timeout=10.0).name
    'symbolic'
    """

    name = "symbolic"
    cost = "n + m answers, and comparisons of those that are no plain numbers"
    is_vote = True
    features_per_segment = True  # answers are compared within a segment

    timeout: float = option(60.0, gt=0, affects_results=False)

    def prepare(self) -> None:
        with needs_extra("the 'symbolic' metric", "math"):
            if find_spec("math_verify") is None:  # slow to import, so only the judge imports it
                raise ModuleNotFoundError(name="math_verify")

    def features(self, texts: Sequence[str]) -> Objects:
        """(N,) answers; equal ones have the form of the first of them."""
        return objects(map(AnswerClasses(self), texts))

    def answers(self, features: Objects) -> list[str | None]:
        return [*features]

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) 1 for equal answers, else 0."""
        ours, theirs = _places(hyps), _places(refs)
        equal = np.zeros((len(ours), len(theirs)))
        for answer in ours.keys() & theirs.keys():
            equal[ours[answer], theirs[answer]] = answer != ""
        # answers on both sides come from one call of `features`, which has merged equal ones
        pairs = [(one, other) for one in ours.keys() - theirs.keys()
                 for other in theirs.keys() - ours.keys()]
        for one, other in compress(pairs, self._are_equal(pairs)):
            equal[ours[one], theirs[other]] = 1
        scores: Floats = equal[np.ix_([ours[answer or ""] for answer in hyps],
                                      [theirs[answer or ""] for answer in refs])]
        return scores

    def answer(self, text: str) -> str | None:
        return find_answer(text)

    def equal_answers(self, answer: str, others: Sequence[str]) -> list[bool]:
        """For each of the other answers, whether it is equal."""
        self.prepare()
        return self._are_equal([(other, answer) for other in others])

    def _are_equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """For each pair of different answers, whether they are formulas of equal value."""
        asked = [pair for pair in pairs if _are_comparable(*pair)]
        lines = _judge(self.timeout, os.getpid()).ask([json.dumps(pair) for pair in asked])
        equal = {pair for pair, line in zip(asked, lines, strict=True) if line.strip() == "1"}
        return [pair in equal for pair in pairs]


def _places(answers: Objects) -> dict[str, int]:
    """Each distinct answer and its index; "" is no answer."""
    distinct = dict.fromkeys(answer or "" for answer in answers)
    return {answer: place for place, answer in enumerate(distinct)}


def _are_comparable(one: str, other: str) -> bool:
    """Whether the judge is needed: both are formulas, and not both are numbers."""
    return (is_formula(one) and is_formula(other)
            and not (is_number(one) and is_number(other)) and not have_other_variables(one, other))


@cache
def _judge(timeout: float, process: int) -> Program:
    """The judge, one per process, because forks that share a pipe would mix their answers."""
    program = f"{shlex.quote(sys.executable)} -m minrisk.metrics.votes.symbolic_judge"
    return Program(program, timeout, _RESTARTS)
