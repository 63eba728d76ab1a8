"""Votes among short mathematical answers: equal in value, however they are written."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.metric import Metric
from minrisk._core.options import option
from minrisk.metrics._base import Objects, objects
from minrisk.metrics._program import Program

_RESTARTS = 2


@dataclass(frozen=True)
class Symbolic(Metric[Objects]):
    r"""1 where two texts give the same mathematical answer, else 0; needs minrisk[math]

    The answer is what stands in \boxed{}, or the last expression; 1/2 is 0.5 and \frac{1}{2}, and
    (x+1)^2 is x^2+2x+1. A text without an answer agrees with none, not even itself.

    Args:
        timeout: seconds without a result after which a comparison fails.

    >>> Symbolic(timeout=10.0).name
    'symbolic'
    """

    name: ClassVar[str] = "symbolic"
    cost: ClassVar[str] = "n · m comparisons of answers"
    loads_model: ClassVar[bool] = True  # it starts a program

    timeout: float = option(60.0, gt=0, affects_results=False,
                            help="seconds without a result after which a comparison fails")

    def prepare(self) -> None:
        with needs_extra("the 'symbolic' metric", "math"):
            if find_spec("math_verify") is None:  # imported by the program alone, for it is slow
                raise ModuleNotFoundError(name="math_verify")

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) whether answers are equal."""
        self.prepare()
        place: dict[str, int] = {}
        ours, theirs = (np.array([place.setdefault(text, len(place)) for text in side], np.intp)
                        for side in (hyps, refs))
        rows, columns = np.unique(np.sort(np.stack(np.broadcast_arrays(ours[:, None], theirs)),
                                          axis=0).reshape(2, -1), axis=1)  # each pair once
        texts = list(place)
        equal = np.zeros((len(texts), len(texts)))
        equal[rows, columns] = equal[columns, rows] = self._judged(
            [(texts[row], texts[column]) for row, column
             in zip(rows.tolist(), columns.tolist(), strict=True)])
        scores: Floats = equal[ours[:, None], theirs]
        return scores


    def equal_answers(self, text: str, others: Sequence[str]) -> list[bool]:
        """Whether a text gives the same answer as each of the others."""
        self.prepare()
        return self._judged([(text, other) for other in others])

    def _judged(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        lines = _judge(self.timeout, os.getpid()).ask([json.dumps(pair) for pair in pairs])
        return [line.strip() == "1" for line in lines]


@cache
def _judge(timeout: float, process: int) -> Program:
    """One for each process: a pipe that forks share would mix their answers."""
    program = f"{shlex.quote(sys.executable)} -m minrisk.metrics._symbolic_judge"
    return Program(program, timeout, _RESTARTS)
