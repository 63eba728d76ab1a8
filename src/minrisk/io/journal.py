"""Results that outlive their process: JSON lines, each of them whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Self

from minrisk.errors import InputError
from minrisk.io.files import told


class Journal:
    """Appends to a file what an interrupted run can go on from.

    Entries are read again one by one, so that they may be more than memory holds.
    """

    def __init__(self, path: str, resume: bool = False) -> None:
        self._path = path
        if not resume and os.path.exists(path) and os.path.getsize(path):
            raise InputError(f"{path} exists; --resume goes on with it, "
                             "or remove it, or name another file")
        self._size = sum(map(len, self._whole_lines())) if os.path.exists(path) else 0
        with told("write", path):
            self._stream = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by the with

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Every entry, and the place where it is found again."""
        place = 0
        for line in self._whole_lines():
            yield place, json.loads(line)
            place += len(line)

    def read(self, places: Iterable[int]) -> Iterator[Any]:
        """The entries at these places."""
        with told("read", self._path), open(self._path, "rb") as stream:
            for place in places:
                stream.seek(place)
                yield json.loads(stream.readline())

    def append(self, entry: dict[str, Any]) -> int:
        """With the operating system when this returns: no signal can tear or lose it."""
        line, place = json.dumps(entry).encode() + b"\n", self._size
        with told("write", self._path):
            self._stream.truncate(place)  # what was torn
            left = memoryview(line)
            while left:
                left = left[self._stream.write(left):]
        self._size += len(line)
        return place

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _whole_lines(self) -> Iterator[bytes]:
        """Up to the first that is torn, by a kill or by a machine that lost what was written."""
        with told("read", self._path), open(self._path, "rb") as stream:
            for number, line in enumerate(stream):
                if not line.endswith(b"\n"):
                    return
                if not _is_json(line):
                    if number == 0:
                        raise InputError(f"{self._path} holds no results of an earlier run; "
                                         "name another file")
                    return
                yield line


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
