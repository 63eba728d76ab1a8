"""What `minrisk validate` found: a table, and the strategy that it recommends."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minrisk.evaluation.figure import check_figure, plot
from minrisk.evaluation.report import report_lines
from minrisk.evaluation.study import Study
from minrisk.evaluation.summary import Summary, TrialSummary
from minrisk.io.store import write_text
from minrisk.io.text_files import FilePath


@dataclass(frozen=True)
class Validation:
    """The results of every strategy on the segments, and the recommended one.

    Printed, it is the table of `minrisk validate`.

    >>> import minrisk
    >>> samples = ["the cat sat", "a cat sat", "the dog sat", "the cat ran", "cats sit"]
    >>> found = minrisk.validate([samples], strategies=["n-by-s"], tolerance=100)
    >>> [row.trial.label for row in found.rows]
    ['standard', 'n-by-s subset n/2', 'n-by-s subset n/4']
    >>> found.rows[0].lost
    0.0
    """

    summary: Summary = field(repr=False)
    signature: str
    skipped: Sequence[str] = ()  # strategies that were not tried, with the reasons
    _study: Study | None = field(default=None, repr=False)

    @property
    def rows(self) -> list[TrialSummary]:
        """Each strategy at each budget: standard MBR first."""
        return self.summary.rows

    @property
    def recommended(self) -> TrialSummary:
        """The fastest within the tolerance, unless standard MBR is nearly as fast."""
        return self.summary.recommended

    @property
    def fewest_pairs(self) -> TrialSummary:
        """The one that evaluates the fewest pairs within the tolerance."""
        return self.summary.fewest_pairs

    def as_json(self) -> dict[str, Any]:
        """The dictionary that `minrisk validate --format json` prints."""
        return {"signature": self.signature} | self.summary.as_json()

    def save(self, path: FilePath) -> None:
        """Write `as_json()` to a file."""
        write_text(os.fspath(path), json.dumps(self.as_json(), indent=1) + "\n")

    def plot(self, path: FilePath) -> None:
        """Plot accuracy over effective references, as .png, .svg or .pdf (`minrisk[plot]`)."""
        assert self._study is not None
        check_figure(os.fspath(path))
        plot(self.summary, self._study, os.fspath(path))

    def __str__(self) -> str:
        assert self._study is not None
        return "\n".join(report_lines(self.summary, self._study.top, self.signature))
