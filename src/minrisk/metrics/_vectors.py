"""Embeddings on disk, shared by runs and processes: SQLite keeps writers apart."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from minrisk.errors import InputError

Vectors = npt.NDArray[np.float32]

_FILE = "embeddings.sqlite"
_AT_ONCE = 500  # variables in a statement
_PATIENCE = 60.0  # seconds to wait for another writer


class VectorStore:
    """Vectors by text, for one model."""

    def __init__(self, folder: str, model: bytes) -> None:
        self._path = Path(folder) / _FILE
        self._model = model
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as database, database:
                database.execute("PRAGMA journal_mode=WAL")  # readers do not wait for a writer
                database.execute("CREATE TABLE IF NOT EXISTS vectors "
                                 "(key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{self._path}: cannot be used as a cache: {error}; "
                             "give another folder, or remove the file") from None

    def through(self, texts: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Vectors:
        """(N, D) of every text; only what is not known is encoded, and known from then on."""
        known = self.get(texts)
        new = [text for text in texts if text not in known]
        if new:
            added = dict(zip(new, encode(new), strict=True))
            self._put(added)
            known |= added
        return np.stack([known[text] for text in texts])

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Those that are known."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        with closing(self._connect()) as database:
            for some in _chunks(list(keys)):
                wanted = ",".join("?" * len(some))
                rows = database.execute(
                    f"SELECT key, vector FROM vectors WHERE key IN ({wanted})", some)
                found |= {keys[key]: np.frombuffer(vector, np.float32) for key, vector in rows}
        return found

    def _put(self, vectors: Mapping[str, Vectors]) -> None:
        rows = [(self._key(text), vector.tobytes()) for text, vector in vectors.items()]
        with closing(self._connect()) as database, database:
            # another process may have been first, with the same vector
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_PATIENCE)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._model + text.encode("utf-8", "surrogatepass")).digest()


def _chunks(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (keys[i : i + _AT_ONCE] for i in range(0, len(keys), _AT_ONCE))
