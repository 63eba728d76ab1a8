"""An append-only journal of JSON entries with checksums; an incomplete entry is ignored."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from itertools import groupby
from typing import Any
from zlib import crc32

from minrisk._core.errors import InputError, Wording
from minrisk.io.files import as_input_error


class Journal:
    """A file from which an interrupted run is resumed.

    Entries are read one by one, so that they need not fit into memory. An entry that is incomplete
    after a kill, damaged on disk, or written for another owner is skipped. The file is open from
    the first `append` to `close`, after which it may be appended to again.
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
        """The entries at these offsets; one that is wanted again and again is read once."""
        with as_input_error("read", self.path), open(self.path, "rb") as stream:
            for offset, same in groupby(offsets):
                stream.seek(offset)
                entry = self._decoded(stream.readline())
                if entry is None:
                    raise InputError(Wording("{path} was changed during the run; run again with "
                                             "resume=True", path=self.path))
                yield from (entry for _ in same)

    def append(self, entry: dict[str, Any]) -> int:
        """Append an entry and return its offset; after that no signal can damage or lose it."""
        line = self._encoded(entry)
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
        """Open the file, and end an incomplete last line, so that nothing is appended to it."""
        with as_input_error("write", self.path):
            stream = self._stream = open(self.path, "ab+", buffering=0)  # noqa: SIM115
            self._size = stream.tell()
            if self._size:
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    self._size += stream.write(b"\n")
        return stream

    def _encoded(self, entry: dict[str, Any]) -> bytes:
        content = json.dumps(entry).encode()
        return b"%08x %b\n" % (crc32(content, self._seed), content)

    def _decoded(self, line: bytes) -> Any:
        """The entry of a line; None if its checksum is wrong."""
        found, _, content = line.removesuffix(b"\n").partition(b" ")
        if found != b"%08x" % crc32(content, self._seed):
            return None
        with suppress(ValueError, RecursionError):  # an invalid entry
            return json.loads(content)
        return None
