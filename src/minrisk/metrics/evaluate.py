"""Metrics of Hugging Face's `evaluate`, which are Python scripts from a folder or the hub."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from minrisk._torch.quiet import unattended
from minrisk.arrays import Floats
from minrisk.errors import InputError, needs_extra
from minrisk.metrics._objects import Objects
from minrisk.metrics._pairs import OfPairs, Pairs, as_scores
from minrisk.options import option


@dataclass(frozen=True)
class Evaluate(OfPairs):
    """a metric of Hugging Face evaluate: --metric evaluate:FOLDER; needs minrisk[evaluate]"""

    name: ClassVar[str] = "evaluate"

    script: str = option(help="the folder of a metric script, or its name on the hub")
    run_code: bool = option(False, help="agree to run the script, which may do anything")
    result: str | None = option(None, help="which of the results is the score")
    source: bool = option(False, help="give it the source as `sources`")
    lists: bool = option(False, help="call it once, if the result is a list of a score per pair")
    error: bool = option(False, help="lower is better")

    def __post_init__(self) -> None:
        if not self.run_code:
            raise InputError(f"evaluate: a metric of `evaluate` is a script, {self.script!r}, that "
                             "is run on this machine; agree with run_code (--metric.run-code)")

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) what the script says of every pair."""
        pairs = Pairs.of(hyps, refs, source if self.source else None)
        if self.lists:
            columns = [list(column) for column in zip(*pairs, strict=True)]
            found = list(np.atleast_1d(self._compute(columns)))
        else:
            found = [self._compute([[text] for text in pair]) for pair in pairs]
        return as_scores(found, hyps, refs, self.script, self.error)

    def _compute(self, columns: list[list[str]]) -> Any:
        names = ("predictions", "references", "sources")
        script = _load(self.script)
        try:
            with unattended():
                results = script.compute(**dict(zip(names, columns, strict=False)))
        except Exception as error:  # somebody else's code: it may fail in any way
            raise InputError(f"{self.script} failed: {type(error).__name__}: {error}") from error
        return results[self._key(results)]

    def _key(self, results: dict[str, Any]) -> str:
        if self.result is None and len(results) == 1:
            return next(iter(results))
        if self.result not in results:
            raise InputError(f"{self.script} returned {', '.join(results)}; choose one with "
                             f"--metric.result (found {self.result or 'none'})")
        return self.result


@cache
def _load(script: str) -> Any:
    with needs_extra("the 'evaluate' metric", "evaluate"):
        import evaluate
    evaluate.utils.logging.disable_progress_bar()
    try:
        with unattended():
            return evaluate.load(script)
    except Exception as error:  # somebody else's code: it may fail in any way
        raise InputError(f"evaluate: {script!r} cannot be loaded: {error}") from error
