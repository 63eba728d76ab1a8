"""The results of an unfinished shard, in a journal."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from minrisk.io.files import Output, as_input_error
from minrisk.io.journal import Journal
from minrisk.io.parquet import is_parquet, write_parquet
from minrisk.io.record import Failure, Result
from minrisk.io.sink import MISSING

_TEXTS_PER_WRITE = 64
_MAX_AHEAD = 1 << 24  # largest gap between finished records; far more than are in flight


class PartialShard:
    """Writes results to a journal as they arrive, and reads them in input order."""

    def __init__(self, path: str, owner: str = "") -> None:
        with as_input_error("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._journal = Journal(path, owner)
        self._offsets = array("q")  # of the journal entry of each segment, or MISSING
        self.done = array("q")  # checksum of the input of each segment, or MISSING
        self.failures: dict[int, Failure] = {}
        self.earlier: dict[int, Failure] = {}  # failures of earlier runs, to be tried again
        self._counts: Counter[str] = Counter()
        self.segments = 0

    @property
    def counts(self) -> dict[str, int]:
        failed = {"failed": len(self.failures)} if self.failures else {}
        return {**self._counts, "segments": self.segments, **failed}

    def load(self) -> None:
        """Load the results of an earlier run; failures are to be tried again."""
        for offset, entry in self._journal:
            if _is_valid(entry) and self._has_new_results(entry["indices"]):
                self._note(offset, entry)
        self.earlier, self.failures = self.failures, {}
        for index in self.earlier:
            self.done[index] = MISSING
        self.segments -= len(self.earlier)

    def missing(self, results: Sequence[Result]) -> list[Result]:
        """The results that are new."""
        return [r for r in results if r.index >= len(self.done) or self.done[r.index] == MISSING]

    def add(self, results: Sequence[Result]) -> None:
        """Append new results to the journal."""
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        entry = {
            "indices": [r.index for r in results],
            "checksums": [r.checksum for r in results],
            "texts": [r.text for r in results],
            "failures": [r.failure for r in results],
            "counts": counts,
        }
        self._note(self._journal.append(entry), entry)

    def texts(self) -> Iterator[str]:
        """The texts of all segments, in input order."""
        if not self._offsets:
            return  # there may be no journal
        last, texts = None, dict[int, str]()
        for index, entry in enumerate(self._journal.read(self._offsets)):
            if entry is not last:
                last, texts = entry, dict(zip(entry["indices"], entry["texts"], strict=True))
            yield texts[index]

    def write(self, path: str, name: str) -> None:
        """Write the texts of all segments to a file, in the format of its final name."""
        if is_parquet(name):
            write_parquet(path, self.texts)
            return
        texts = self.texts()
        with Output(path, name=name) as output:
            while some := list(islice(texts, _TEXTS_PER_WRITE)):
                output.write("".join(some))

    def close(self) -> None:
        """Close the journal, until there are further results."""
        self._journal.close()

    def remove(self) -> None:
        self.close()
        with as_input_error("write", self._journal.path):
            Path(self._journal.path).unlink(missing_ok=True)

    def _has_new_results(self, indices: Sequence[int]) -> bool:
        """Whether one of them is not finished; an entry may be a repetition."""
        return max(indices) < len(self.done) + _MAX_AHEAD and any(
            index >= len(self.done) or self.done[index] == MISSING or index in self.failures
            for index in indices)

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


def _is_valid(entry: Any) -> bool:
    """Whether an entry has the format of `add`: a correct checksum does not prove it."""
    if not isinstance(entry, dict):
        return False
    columns: list[Any] = [entry.get(name) for name in _ENTRY_CHECKS]
    counts = entry.get("counts")
    return (all(isinstance(column, list) and column for column in columns)
            and len(set(map(len, columns))) == 1
            and all(all(map(*pair)) for pair in zip(_ENTRY_CHECKS.values(), columns, strict=True))
            and isinstance(counts, dict) and all(type(n) is int for n in counts.values()))


def _is_failure(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(value, str | int | float | None) for value in found.values())


_ENTRY_CHECKS: dict[str, Callable[[Any], bool]] = {
    "indices": lambda index: type(index) is int and index >= 0,
    "checksums": lambda found: type(found) is int and 0 <= found < 1 << 32,
    "texts": lambda text: isinstance(text, str),
    "failures": lambda found: found is None or _is_failure(found),
}
