"""Embeddings on disk, shared by runs and processes."""

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
_CHECKSUM = 8  # bytes before those of a vector


class VectorStore:
    """Vectors by text, for one model, of which `model` is a fingerprint."""

    def __init__(self, folder: str, model: bytes) -> None:
        self._store = SqliteCache(str(Path(folder) / _FILE), _TABLE)
        self._model = model

    def through(self, texts: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Vectors:
        """(N, D) of every text; only what is not known is encoded, and known from then on."""
        known = self.get(texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            added = dict(zip(new, encode(new), strict=True))
            self._put(added)
            known |= added
        return np.stack([known[text] for text in texts])

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Those that are known; rows that were damaged are not."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        for some in chunks(list(keys)):
            wanted = ",".join("?" * len(some))
            rows = self._store.read(
                f"SELECT key, vector FROM embeddings WHERE key IN ({wanted})", some)
            opened = ((keys[key], _opened(key, sealed)) for key, sealed in rows)
            found |= {text: vector for text, vector in opened if vector is not None}
        return found

    def _put(self, vectors: Mapping[str, Vectors]) -> None:
        keys = {self._key(text): vector.tobytes() for text, vector in vectors.items()}
        self._store.write("INSERT OR REPLACE INTO embeddings VALUES (?, ?)",
                          [(key, _sum(key, vector) + vector) for key, vector in keys.items()])

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._model + text.encode("utf-8", "surrogatepass")).digest()


def _sum(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(key + vector, digest_size=_CHECKSUM).digest()


def _opened(key: bytes, sealed: Any) -> Vectors | None:
    """A vector as it was written, or nothing."""
    if not isinstance(sealed, bytes):
        return None
    checksum, vector = sealed[:_CHECKSUM], sealed[_CHECKSUM:]
    return np.frombuffer(vector, np.float32) if checksum == _sum(key, vector) else None
