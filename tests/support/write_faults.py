"""Faults at every write: the disk is full, or the process is killed in the middle of it."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_CALLS = [(os, "replace"), (os, "remove"), (os, "unlink"), (os, "mkdir"), (os, "rmdir"),
          (shutil, "rmtree")]


class Killed(BaseException):
    """As if the process were gone: nothing is written any more."""


class Faults:
    """Fails one of the writes below a folder: opening to write, writing, renaming, removing."""

    def __init__(self, root: Path, number: int, kills: bool) -> None:
        self._root = str(root)
        self._left = number
        self._kills = kills
        self.has_failed = False

    def check(self, path: Any = None) -> None:
        """Called before each of them; the path is None where another call has seen to it."""
        if path is not None and not str(path).startswith(self._root):
            return
        if self.has_failed and self._kills:
            raise Killed
        self._left -= 1
        if self._left == -1:
            self.has_failed = True
            raise Killed if self._kills else OSError(errno.ENOSPC, "No space left on device")

    @contextmanager
    def planted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in _CALLS:
                patch.setattr(owner, name, self._checked(getattr(owner, name)))
            opened = self._opened(builtins.open)
            patch.setattr(builtins, "open", opened)
            patch.setattr(io, "open", opened)
            yield

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any, *args: Any, **options: Any) -> Any:
            self.check(path)
            return call(path, *args, **options)

        return checked

    def _opened(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+") or not str(path).startswith(self._root):
                return call(path, mode, *args, **options)
            self.check()
            return _File(call(path, mode, *args, **options), self)

        return opened


class _File:
    """A file that is torn where a write fails."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def write(self, data: Any) -> Any:
        try:
            self._faults.check()
        except BaseException:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            raise
        return self._file.write(data)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
