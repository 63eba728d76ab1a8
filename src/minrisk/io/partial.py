"""A shard that is not finished: its results so far, in a journal."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minrisk.io.files import as_input_error
from minrisk.io.journal import Journal
from minrisk.io.record import Failure, Result
from minrisk.io.sink import MISSING


class Partial:
    """Keeps results in the order in which they come, and finds them again in that of the input."""

    def __init__(self, path: str) -> None:
        with as_input_error("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._journal = Journal(path)
        self._offsets = array("q")  # of the entry with the result of each segment, or MISSING
        self.done = array("q")  # the checksum of the input of each segment, or MISSING
        self.failures: dict[int, Failure] = {}
        self.earlier: dict[int, Failure] = {}  # failures that are to be made again
        self._counts: Counter[str] = Counter()
        self.segments = 0

    @property
    def counts(self) -> dict[str, int]:
        failed = {"failed": len(self.failures)} if self.failures else {}
        return {**self._counts, "segments": self.segments, **failed}

    def load(self) -> None:
        """What an earlier run left; what failed is to be made again."""
        for offset, entry in self._journal:
            with suppress(LookupError, TypeError, ValueError, OverflowError):  # not of our making
                self._note(offset, entry)
        self.earlier, self.failures = self.failures, {}
        for index in self.earlier:
            self.done[index] = MISSING
        self.segments -= len(self.earlier)

    def missing(self, results: Sequence[Result]) -> list[Result]:
        """Those of the results that are not there yet."""
        return [r for r in results if r.index >= len(self.done) or self.done[r.index] == MISSING]

    def add(self, results: Sequence[Result]) -> None:
        """Keep results that were missing."""
        entry = {
            "indices": [r.index for r in results],
            "checksums": [r.checksum for r in results],
            "texts": [r.text for r in results],
            "failures": [r.failure for r in results],
            "counts": dict(sum((Counter(r.counts) for r in results), Counter())),
        }
        self._note(self._journal.append(entry), entry)

    def texts(self) -> Iterator[str]:
        """Of all segments, in order."""
        runs: list[tuple[int, list[int]]] = []  # consecutive segments of one entry
        for index, offset in enumerate(self._offsets):
            if runs and runs[-1][0] == offset:
                runs[-1][1].append(index)
            else:
                runs.append((offset, [index]))
        for entry, (_, indices) in zip(self._journal.read([offset for offset, _ in runs]), runs,
                                       strict=True):
            place = {index: i for i, index in enumerate(entry["indices"])}
            for index in indices:
                yield entry["texts"][place[index]]

    def remove(self) -> None:
        with as_input_error("write", self._journal.path):
            Path(self._journal.path).unlink(missing_ok=True)

    def _note(self, offset: int, entry: Mapping[str, Any]) -> None:
        for index, checksum, failure in zip(entry["indices"], entry["checksums"],
                                            entry["failures"], strict=True):
            missing = index + 1 - len(self.done)
            self.done.extend([MISSING] * missing)
            self._offsets.extend([MISSING] * missing)
            self.segments += self.done[index] == MISSING
            self.done[index] = checksum
            self._offsets[index] = offset
            self.failures.pop(index, None)
            self.earlier.pop(index, None)
            if failure is not None:
                self.failures[index] = failure
        self._counts.update(entry["counts"])
