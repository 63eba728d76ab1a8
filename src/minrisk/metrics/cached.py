"""Scores that are remembered, in memory or in a file, for metrics that cost more than a look-up."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np

from minrisk.adapters import inner
from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.metric import Ability, AnyMetric
from minrisk.metrics._around import Around
from minrisk.metrics._objects import Objects, objects
from minrisk.options import option
from minrisk.signature import parts_signature

_MEMORY = ":memory:"
_PATIENCE = 60.0  # seconds to wait for another process that writes
_TABLE = """CREATE TABLE IF NOT EXISTS scores (
    metric BLOB, source BLOB, hypothesis BLOB, reference BLOB, score REAL,
    PRIMARY KEY (metric, source, hypothesis, reference)) WITHOUT ROWID"""


@dataclass(frozen=True)
class Cached(Around):
    """remembers the scores of another metric: --metric cached:NAME

    A score is found again by the texts and by every option of the metric, its version included.
    """

    metric: AnyMetric = inner(help="one, as in cached:comet")
    path: str = option(_MEMORY, help="a file that keeps them; several processes may share it")

    @property
    def name(self) -> str:
        return f"cached:{self.metric.name}"

    @property
    def abilities(self) -> Ability:
        """Statistics of a corpus, which are not of pairs, are counted anew."""
        return self.metric.abilities & Ability.CORPUS_STATISTICS

    def features(self, texts: Sequence[str]) -> Objects:
        """The texts: what is known needs no features."""
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) as the metric gives them, or gave them before."""
        source = source if self.needs_source else None
        store = _store(self, os.getpid())
        keys = store.keys(parts_signature(metric=self.metric), hyps, refs, source)
        found = store.find(keys)  # (H, R), NaN where not known
        rows, columns = (np.flatnonzero(np.isnan(found).any(axis=axis)) for axis in (1, 0))
        if rows.size:
            new = self._compute(hyps[rows], refs[columns], source)
            found[np.ix_(rows, columns)] = new
            store.add(keys, rows, columns, new)
        return found

    def _compute(self, hyps: Objects, refs: Objects, source: Objects | None) -> Floats:
        texts = list(dict.fromkeys([*hyps, *refs]))
        place = {text: row for row, text in enumerate(texts)}
        features = self.metric.features(texts)
        ours, theirs = (features[np.array([place[text] for text in side], np.intp)]
                        for side in (hyps, refs))
        return self.metric.scores(ours, theirs,
                                  None if source is None else self.metric.features(list(source)))

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        return self.metric.statistics(hyps, refs)

    def corpus(self, statistics: Floats) -> float:
        return self.metric.corpus(statistics)


@dataclass(frozen=True)
class _Keys:
    """Short names for texts that never meet by chance."""

    metric: bytes
    source: bytes
    hyps: list[bytes]
    refs: list[bytes]


class _Store:
    """A table of scores; SQLite keeps processes that share a file apart."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._table = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
            with self._table:
                self._table.execute("PRAGMA journal_mode=WAL")
                self._table.execute(_TABLE)
        except sqlite3.Error as error:
            raise self._failure(error) from None
        atexit.register(self._table.close)

    def keys(self, metric: str, hyps: Objects, refs: Objects, source: Objects | None) -> _Keys:
        return _Keys(_digest(metric), b"" if source is None else _digest(source[0]),
                     [_digest(text) for text in hyps], [_digest(text) for text in refs])

    def find(self, keys: _Keys) -> Floats:
        """(H, R) what is known; a query for each hypothesis."""
        found = np.full((len(keys.hyps), len(keys.refs)), np.nan)
        for row, hyp in enumerate(keys.hyps):
            known = dict(self._query(keys, hyp))
            found[row] = [known.get(ref, np.nan) for ref in keys.refs]
        return found

    def add(self, keys: _Keys, rows: Any, columns: Any, scores: Floats) -> None:
        new = ((keys.metric, keys.source, keys.hyps[row], keys.refs[column], float(score))
               for row, line in zip(rows, scores, strict=True)
               for column, score in zip(columns, line, strict=True))
        try:
            with self._lock, self._table:
                self._table.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?)", new)
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def _query(self, keys: _Keys, hyp: bytes) -> list[tuple[bytes, float]]:
        try:
            with self._lock:
                return self._table.execute(
                    "SELECT reference, score FROM scores "
                    "WHERE metric = ? AND source = ? AND hypothesis = ?",
                    (keys.metric, keys.source, hyp)).fetchall()
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: sqlite3.Error) -> InputError:
        return InputError(f"cached: {self._path} cannot be used for scores: {error}; "
                          "give another path")


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@cache
def _store(metric: Cached, process: int) -> _Store:
    """One for each process: a connection must not be shared with a fork."""
    return _Store(metric.path)
