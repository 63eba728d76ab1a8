"""A program as a metric: it reads pairs as JSON lines and writes a score per line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.options import option
from minrisk.metrics._fingerprint import digest
from minrisk.metrics._pairwise import PairwiseMetric, as_scores
from minrisk.metrics._program import Program

_FIELDS, _BY_SOURCE = ("hypothesis", "reference", "source"), ("hypothesis", "source")


@dataclass(frozen=True)
class Command(PairwiseMetric):
    """a program that reads pairs and writes scores, as JSON lines: --metric command:PROGRAM

    It reads {"hypothesis": "...", "reference": "..."} per line, and "source" if that is asked for;
    it writes a number or {"score": number} per line, in order, and flushes its output. It is
    started once per process, and again if it dies.

    Args:
        command: the program and its arguments, split as by a shell.
        source: whether the source is sent too.
        by_source: whether the program judges by the source alone, as a reward does: it is sent
            hypothesis and source, and the metric works with `rerank`, too.
        timeout: seconds to wait for an answer before the run fails.
        restarts: number of consecutive restarts without an answer before the run fails.
        error: whether lower is better; scores are then negated.

    Raises:
        InputError: if there is no command; when it is used, if the program cannot be started, does
            not answer, or writes anything but one finite number per pair.

    >>> import minrisk, sys
    >>> code = "import sys; [print(len(line), flush=True) for line in sys.stdin]"
    >>> lengths = minrisk.Command(f'{sys.executable} -c "{code}"')
    >>> minrisk.decode(["a cat", "a black cat"], metric=lengths).text
    'a black cat'
    """

    name: ClassVar[str] = "command"
    cost: ClassVar[str] = "n · m lines for the program"

    command: str = option(help="program and its arguments, split as by a shell")
    source: bool = option(False, help="send the source too")
    by_source: bool = option(False, help="judge by the source alone: send hypothesis and source, "
                             "no reference")
    timeout: float = option(60.0, gt=0, help="seconds to wait for an answer")
    restarts: int = option(2, ge=0, help="number of restarts in a row without an answer")
    error: bool = option(False, help="negate the scores, of which lower is better")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip():
            raise InputError(f"command: command must name a program; got {self.command!r}")

    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        names = _BY_SOURCE if self.by_source else _FIELDS
        lines = [json.dumps(dict(zip(names, own, strict=False))) for own in arguments]
        answers = _program(self, os.getpid()).ask(lines)
        found = [self._score(answer) for answer in answers]
        return as_scores(found, len(arguments), self.command, self.error)

    def fingerprint(self) -> str:
        """Of the program, and of the files among its arguments."""
        try:
            program, *arguments = shlex.split(self.command)
        except ValueError:  # reported when the program is started
            return ""
        values = [argument.rpartition("=")[2] for argument in arguments]
        return digest([shutil.which(program) or program, *filter(os.path.isfile, values)])

    def _score(self, answer: str) -> Any:
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            raise InputError(f'{self.command}: expected a number or {{"score": number}} per line, '
                             f"got {answer!r:.80}") from None
        return found.get("score") if isinstance(found, dict) else found


@cache
def _program(metric: Command, process: int) -> Program:
    """One for each process: a pipe that forks share would mix their answers."""
    return Program(metric.command, metric.timeout, metric.restarts)
