"""A SQLite file as a cache that threads, processes and runs share.

What is wrong with the file (full disk, a lock that is not given up, damage) is an InputError in one
line; what is wrong with a single row is for the reader to see and to pass over.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from minrisk._core.errors import InputError

MEMORY = ":memory:"
VARIABLES = 500  # in a statement; SQLite takes 999 at least
_LOCK_SECONDS = 60.0  # to wait for another process that writes

T = TypeVar("T")
_inherited: list[object] = []  # connections of parent processes, which must not be collected


@dataclass(frozen=True)
class _Connection:
    """Of one process."""

    database: sqlite3.Connection
    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)  # SQLite serves one at a time

    def close(self) -> None:
        """SQLite forbids a child process to touch what it inherited, even to close it."""
        if self.process == os.getpid():
            self.database.close()


class Store:
    """Tables in a file; `table` is the statement that creates one if it is not there."""

    def __init__(self, path: str, table: str) -> None:
        self._path, self._table = path, table
        self._open: _Connection | None = None
        self._connection()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(lambda database: database.execute(query, values).fetchall())

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """All rows or none."""
        def insert(database: sqlite3.Connection) -> None:
            with database:
                database.executemany(statement, rows)

        self._run(insert)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection()
        try:
            with connection.lock:
                return work(connection.database)
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise self._failure(error) from None

    def _connection(self) -> _Connection:
        """The one of this process: a fork makes its own."""
        if self._open is not None and self._open.process != os.getpid():
            _inherited.append(self._open)
            self._open = None
        if self._open is None:
            self._open = _Connection(self._connect())
            finalize(self, self._open.close)
        return self._open

    def _connect(self) -> sqlite3.Connection:
        try:
            if self._path != MEMORY:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, check_same_thread=False)
            # text that is none is a row for the reader to pass over, and no error of the file
            database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            with database:
                database.execute("PRAGMA journal_mode=WAL")  # readers do not wait for a writer
                database.execute(self._table)
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from None
        return database

    def _failure(self, error: Exception) -> InputError:
        return InputError(f"{self._path}: cannot be used as a cache: {error}; make room, wait for "
                          "who holds it, remove the file, or name another")
