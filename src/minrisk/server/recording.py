"""`--record FILE`: every request as a line that `minrisk decode` reads."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor

from minrisk._core.errors import InputError
from minrisk._core.texts import valid_unicode
from minrisk.io.files import as_input_error
from minrisk.io.platform import try_lock

_TAIL = 1 << 16
_MODE = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)  # of Windows


class Recorder:
    """Appends whole lines to a file.

    A line is on the disk before its request is answered. An incomplete last line is removed: at
    once after a failure, as of a full disk, and when the file is opened again after a kill. Only
    one server can write a file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with as_input_error("write", path):
            self._file = os.open(path, _MODE, 0o600)
        if not try_lock(self._file):
            os.close(self._file)
            raise InputError(f"{path} is being written by another server; give each its own")
        _cut_torn_line(self._file)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="minrisk-record")

    def append(self, line: str) -> Future[None]:
        """A future that is done when the line is on the disk."""
        # a lone surrogate, as JSON may have one, becomes U+FFFD: UTF-8 cannot write it
        return self._thread.submit(self._write, valid_unicode(line).encode())

    def close(self) -> None:
        self._thread.shutdown()
        os.close(self._file)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left):]
            os.fsync(self._file)
        except OSError:
            _cut_torn_line(self._file)  # the next line must not be glued to a part of this one
            raise


def _cut_torn_line(file: int) -> None:
    """Remove an incomplete last line."""
    end = os.fstat(file).st_size
    start = end
    while start > 0:
        size = min(_TAIL, start)
        os.lseek(file, start - size, os.SEEK_SET)
        found = os.read(file, size).rfind(b"\n")
        if found >= 0:
            start = start - size + found + 1
            break
        start -= size
    if start < end:
        os.ftruncate(file, start)
