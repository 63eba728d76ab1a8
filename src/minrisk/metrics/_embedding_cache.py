"""A cache of embeddings on disk, which runs and processes share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.sqlite_cache import SqliteCache, chunks

Vectors = npt.NDArray[np.float32]

_FILE = "embeddings.sqlite"
_TABLE = ("CREATE TABLE IF NOT EXISTS embeddings "
          "(key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
_CHECKSUM_BYTES = 8  # bytes before those of a vector


class EmbeddingCache:
    """The embeddings of one model by text; `model` is its fingerprint."""

    def __init__(self, folder: str, model: bytes) -> None:
        self._store = SqliteCache(str(Path(folder) / _FILE), _TABLE)
        self._model = model

    def get_or_encode(self, texts: Sequence[str],
                      encode: Callable[[list[str]], Vectors]) -> Vectors:
        """(N, D) embeddings of the texts; those that are not cached are encoded and added."""
        known = self.get(texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            added = dict(zip(new, encode(new), strict=True))
            self._put(added)
            known |= added
        return np.stack([known[text] for text in texts])

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """The cached embeddings by text; damaged rows are left out."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        for some in chunks(list(keys)):
            wanted = ",".join("?" * len(some))
            rows = self._store.read(
                f"SELECT key, vector FROM embeddings WHERE key IN ({wanted})", some)
            decoded = ((keys[key], _decoded(key, stored)) for key, stored in rows)
            found |= {text: vector for text, vector in decoded if vector is not None}
        return found

    def _put(self, vectors: Mapping[str, Vectors]) -> None:
        keys = {self._key(text): vector.tobytes() for text, vector in vectors.items()}
        self._store.write("INSERT OR REPLACE INTO embeddings VALUES (?, ?)",
                          [(key, _checksum(key, vector) + vector) for key, vector in keys.items()])

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._model + text.encode("utf-8", "surrogatepass")).digest()


def _checksum(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(key + vector, digest_size=_CHECKSUM_BYTES).digest()


def _decoded(key: bytes, stored: Any) -> Vectors | None:
    """The vector of a stored row, or None if the row is damaged."""
    if not isinstance(stored, bytes):
        return None
    checksum, vector = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    return np.frombuffer(vector, np.float32) if checksum == _checksum(key, vector) else None
