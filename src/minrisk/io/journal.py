"""Results that outlive their process: JSON lines, each of them whole or not there."""

from __future__ import annotations

import json
import os
from typing import Any, Self

from minrisk.errors import InputError
from minrisk.io.files import told


class Journal:
    """Appends to a file what an interrupted run can go on from."""

    def __init__(self, path: str, resume: bool = False) -> None:
        self._path = path
        whole = _whole_lines(path)
        if whole and not resume:
            raise InputError(f"{path} exists; --resume goes on with it, "
                             "or remove it, or name another file")
        self.entries = [_parse(line, path) for line in whole]
        with told("write", path):
            self._stream = open(path, "ab")  # noqa: SIM115 - closed by the with statement
            self._stream.truncate(sum(len(line) + 1 for line in whole))

    def append(self, entry: dict[str, Any]) -> None:
        """With the operating system when this returns: no signal can tear or lose it."""
        with told("write", self._path):
            self._stream.write(json.dumps(entry).encode() + b"\n")
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _whole_lines(path: str) -> list[bytes]:
    """Without one that is torn, for its process was killed while it wrote."""
    if not os.path.exists(path):
        return []
    with told("read", path), open(path, "rb") as stream:
        return stream.read().split(b"\n")[:-1]


def _parse(line: bytes, path: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise InputError(f"{path} holds no results of an earlier run; "
                         "name another file") from None
