"""Embeddings on disk, shared by runs and processes: SQLite keeps writers apart."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import torch
from torch import Tensor

from minrisk.errors import InputError

_FILE = "embeddings.sqlite"
_AT_ONCE = 500  # variables in a statement
_PATIENCE = 60.0  # seconds to wait for another writer
_SAMPLED = 64  # numbers of each weight that make the fingerprint


class Store:
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

    def get(self, texts: Iterable[str]) -> dict[str, Tensor]:
        """Those that are known."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, Tensor] = {}
        with closing(self._connect()) as database:
            for some in _chunks(list(keys)):
                wanted = ",".join("?" * len(some))
                rows = database.execute(
                    f"SELECT key, vector FROM vectors WHERE key IN ({wanted})", some)
                found |= {keys[key]: torch.frombuffer(bytearray(vector), dtype=torch.float32)
                          for key, vector in rows}
        return found

    def put(self, vectors: Mapping[str, Tensor]) -> None:
        rows = [(self._key(text), vector.float().cpu().numpy().tobytes())
                for text, vector in vectors.items()]
        with closing(self._connect()) as database, database:
            # another process may have been first, with the same vector
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_PATIENCE)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._model + text.encode("utf-8", "surrogatepass")).digest()


def fingerprint(weights: Mapping[str, Tensor], *settings: str) -> bytes:
    """Of a model: some numbers of each weight, so that gigabytes need not be read."""
    digest = hashlib.sha256("\0".join(settings).encode())
    for name, tensor in sorted(weights.items()):
        flat = tensor.flatten()
        some = flat[:: max(1, len(flat) // _SAMPLED)].float().contiguous()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + some.numpy().tobytes())
    return digest.digest()


def _chunks(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (keys[i : i + _AT_ONCE] for i in range(0, len(keys), _AT_ONCE))
