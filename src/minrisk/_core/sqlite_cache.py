"""A cache in a SQLite file that threads, processes and runs share.

A problem with the file (full disk, a lock held by another process, corruption) raises an InputError
of one line. Corrupt rows are returned as they are; the caller checks and skips them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from minrisk._core.errors import InputError

MEMORY = ":memory:"
_MAX_VARIABLES = 500  # per statement; every SQLite allows at least 999
_MAX_ROWS_IN_MEMORY = 1 << 20  # rows of a cache without a file, about 100 MB of scores
_LOCK_SECONDS = 60.0  # seconds to wait while another process writes

T = TypeVar("T")
_inherited: list[object] = []  # connections of parent processes; keeps them from being collected


@dataclass(frozen=True)
class _OpenDatabase:
    """The open database of one process."""

    database: sqlite3.Connection
    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a thread uses it

    def close(self) -> None:
        """Close it, but not in a forked child: SQLite forbids any use of inherited connections."""
        if self.process == os.getpid():
            self.database.close()


class SqliteCache:
    """A table in a SQLite file; the file and its folder are created if they do not exist."""

    def __init__(self, path: str, table: str) -> None:
        """`table` is the statement that creates the table if it does not exist."""
        self._path, self._table = path, table
        self._open: _OpenDatabase | None = None
        self._written = 0  # rows written since it was last emptied, if it is in memory
        self._connection()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(lambda database: database.execute(query, values).fetchall())

    def find(self, query: str, keys: Sequence[bytes], *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows with one of these keys; the query ends with their column, after the values."""
        for start in range(0, len(keys), _MAX_VARIABLES):
            some = keys[start:start + _MAX_VARIABLES]
            yield from self.read(f"{query} IN ({','.join('?' * len(some))})", (*values, *some))

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write all rows in one transaction; a full cache in memory is emptied first."""
        def insert(database: sqlite3.Connection) -> None:
            with database:
                if self._path == MEMORY and self._written >= _MAX_ROWS_IN_MEMORY:
                    self._empty(database)
                self._written += database.executemany(statement, rows).rowcount

        self._run(insert)

    def _empty(self, database: sqlite3.Connection) -> None:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            database.execute(f"DELETE FROM {table}")
        self._written = 0

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection()
        try:
            with connection.lock:
                return work(connection.database)
        # the name of a table or column that is corrupt raises a UnicodeDecodeError
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:
            raise self._failure(error) from None

    def _connection(self) -> _OpenDatabase:
        """The connection of this process; a forked process opens its own."""
        if self._open is not None and self._open.process != os.getpid():
            _inherited.append(self._open)
            self._open = None
        if self._open is None:
            self._open = _OpenDatabase(self._connect())
            finalize(self, self._open.close)
        return self._open

    def _connect(self) -> sqlite3.Connection:
        try:
            if self._path != MEMORY:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, check_same_thread=False)
            with ExitStack() as on_failure:
                on_failure.callback(database.close)
                self._prepare(database)
                on_failure.pop_all()
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise self._failure(error) from None
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        # invalid text must not raise: the caller skips such corrupt rows
        database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        with database:
            database.execute("PRAGMA journal_mode=WAL")  # readers do not wait for writers
            database.execute(self._table)

    def _failure(self, error: Exception) -> InputError:
        return InputError(f"{self._path}: cannot be used as a cache: {error}; free some space, "
                          "wait for the process that locks it, remove the file, or name another "
                          "file")
