"""An append-only journal of JSON entries with checksums; incomplete entries are ignored.

It stores the results of an unfinished shard.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

from minrisk._core.errors import InputError, Wording
from minrisk.io.files import as_input_error
from minrisk.io.outputs import MISSING
from minrisk.io.records import Failure, Result

_MAX_AHEAD = 1 << 24  # largest plausible gap in indices; far more records than are in flight


class Journal:
    """A journal file, from which an interrupted run is resumed.

    Entries are read one by one, so they need not fit into memory. Entries that are incomplete after
    a crash, damaged on disk, or written by another owner are skipped. The file is open from the
    first `append` to `close`; a further `append` opens it again.
    """

    def __init__(self, path: str, owner: str = "") -> None:
        """`owner` identifies the run and its shard, and is part of every checksum."""
        self.path = path
        self._seed = crc32(owner.encode("utf-8", "surrogateescape"))
        self._stream: FileIO | None = None  # not buffered
        self._size = 0

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Every valid entry with its offset."""
        if not os.path.exists(self.path):
            return
        offset = 0
        with as_input_error("read", self.path), open(self.path, "rb") as stream:
            for line in stream:
                entry = self._decoded(line)
                if entry is not None:
                    yield offset, entry
                offset += len(line)

    def read(self, offsets: Iterable[int]) -> Iterator[Any]:
        """The entries at these offsets; repeated offsets in a row are read once."""
        with as_input_error("read", self.path), open(self.path, "rb") as stream:
            for offset, same in groupby(offsets):
                stream.seek(offset)
                entry = self._decoded(stream.readline())
                if entry is None:
                    raise InputError(Wording("{path} was changed during the run; run again with "
                                             "resume=True", path=self.path))
                yield from (entry for _ in same)

    def append(self, entry: dict[str, Any]) -> int:
        """Append an entry and return its offset; it then survives the death of this process."""
        content = json.dumps(entry).encode()
        line = b"%08x %b\n" % (crc32(content, self._seed), content)
        stream = self._stream or self._open()
        offset, left = self._size, memoryview(line)
        with as_input_error("write", self.path):
            while left:
                left = left[stream.write(left):]
        self._size += len(line)
        return offset

    def close(self) -> None:
        if self._stream is not None:
            with as_input_error("write", self.path):
                self._stream.close()
        self._stream = None

    def _open(self) -> FileIO:
        """Open the file, and terminate an incomplete last line, so that entries start a new one."""
        with as_input_error("write", self.path):
            stream = self._stream = open(self.path, "ab+", buffering=0)  # noqa: SIM115
            self._size = stream.tell()
            if self._size:
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    self._size += stream.write(b"\n")
        return stream

    def _decoded(self, line: bytes) -> Any:
        """The entry of a line; None if its checksum is wrong."""
        crc, _, content = line.removesuffix(b"\n").partition(b" ")
        if crc != b"%08x" % crc32(content, self._seed):
            return None
        with suppress(ValueError, RecursionError):  # an invalid entry
            return json.loads(content)
        return None


class PartialShard:
    """Writes results to a journal as they arrive, and reads them in input order."""

    def __init__(self, path: str, owner: str = "") -> None:
        with as_input_error("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self.journal = Journal(path, owner)
        self._offsets = array("q")  # of the journal entry of each segment, or MISSING
        self.done = array("q")  # checksum of the input of each segment, or MISSING
        self.failures: dict[int, Failure] = {}
        self.earlier: dict[int, Failure] = {}  # failures of earlier runs, to be retried
        self._counts: Counter[str] = Counter()
        self.segments = 0

    @property
    def counts(self) -> dict[str, int]:
        failed = {"failed": len(self.failures)} if self.failures else {}
        return {**self._counts, "segments": self.segments, **failed}

    def load(self) -> None:
        """Load the results of an earlier run; its failures will be retried."""
        for offset, entry in self.journal:
            if _is_valid(entry) and self._has_new_results(entry["indices"]):
                self._note(offset, entry)
        self.earlier, self.failures = self.failures, {}
        for index in self.earlier:
            self.done[index] = MISSING
        self.segments -= len(self.earlier)

    def missing(self, results: Sequence[Result]) -> list[Result]:
        """The results that are not in the journal yet."""
        return [r for r in results if r.index >= len(self.done) or self.done[r.index] == MISSING]

    def add(self, results: Sequence[Result]) -> None:
        """Append results to the journal."""
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
        self._note(self.journal.append(entry), entry)

    def texts(self) -> Iterator[str]:
        """The texts of all segments, in input order."""
        if not self._offsets:
            return  # there may be no journal file
        last, texts = None, dict[int, str]()
        for index, entry in enumerate(self.journal.read(self._offsets)):
            if entry is not last:
                last, texts = entry, dict(zip(entry["indices"], entry["texts"], strict=True))
            yield texts[index]

    def remove(self) -> None:
        self.journal.close()
        with as_input_error("write", self.journal.path):
            Path(self.journal.path).unlink(missing_ok=True)

    def _has_new_results(self, indices: Sequence[int]) -> bool:
        """Whether an entry has results for unfinished records; others are duplicates."""
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
    """Whether an entry has the format of `add`; the checksum alone does not prove it."""
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
