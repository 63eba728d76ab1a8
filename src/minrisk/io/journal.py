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
        *whole, torn = _content(path).split(b"\n")
        if (whole or torn) and not resume:
            raise InputError(f"{path} exists; --resume goes on with it, "
                             "or remove it, or name another file")
        self.entries = [_parse(line, path) for line in whole]
        self._size = sum(len(line) + 1 for line in whole)
        with told("write", path):
            self._stream = open(path, "ab")  # noqa: SIM115 - closed by the with statement

    def append(self, entry: dict[str, Any]) -> None:
        """With the operating system when this returns: no signal can tear or lose it."""
        line = json.dumps(entry).encode() + b"\n"
        with told("write", self._path):
            self._stream.truncate(self._size)  # a line that was torn by a kill
            self._stream.write(line)
            self._stream.flush()
        self._size += len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _content(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with told("read", path), open(path, "rb") as stream:
        return stream.read()


def _parse(line: bytes, path: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise InputError(f"{path} holds no results of an earlier run; "
                         "name another file") from None
