"""A cache of scores, in memory or in a file, for metrics that cost more than a lookup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b

import numpy as np

from minrisk._core.arrays import Floats, Ints, Objects, numbered, objects
from minrisk._core.fingerprint import fingerprint
from minrisk._core.lazy import lazy
from minrisk._core.signature import parts_signature
from minrisk._core.sqlite_cache import MEMORY, SqliteCache
from minrisk.metrics.wrappers import WrapperMetric
from minrisk.plugins import AnyMetric, Segment, inner, option

_TABLE = """CREATE TABLE IF NOT EXISTS scores (
    metric BLOB, source BLOB, hypothesis BLOB, reference BLOB, score REAL,
    PRIMARY KEY (metric, source, hypothesis, reference)) WITHOUT ROWID"""


class _Given(str):
    """A given reference, in which a vote may find another answer than in a sample."""

    __slots__ = ()


@dataclass(frozen=True)
class Cached(WrapperMetric):
    """A cache of the scores of another metric: --metric cached:NAME.

    The key of a score is the texts, every option of the metric, the version of minrisk, and the
    content of the files behind the metric: a function's module, a program, a model's folder.

    Args:
        metric: the inner metric, by object, class or name.
        path: SQLite file of the cache, which several processes may share. In memory, it is emptied
            at about a million pairs.

    Raises:
        InputError: if scores of the metric depend on more than the texts of a pair; when it is
            used, if the file is not a cache.

    >>> import minrisk
    >>> cached = minrisk.Cached(minrisk.ChrF())
    >>> cached.name
    'cached:chrf'
    >>> minrisk.decode(["the cat sat", "a cat sat"], metric=cached).text
    'the cat sat'
    """

    kind = "cached"
    cost = "that of its metric, once for each pair"
    metric: AnyMetric = inner(help="an inner metric, as in cached:comet", texts_only=True)
    path: str = option(MEMORY, affects_results=False)

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> Objects:
        return self.features(texts)

    def features(self, texts: Sequence[str]) -> Objects:
        """The texts themselves: cached scores need no features."""
        return objects(texts)

    def as_given(self, refs: Objects) -> Objects:
        return objects(map(_Given, refs)) if self.is_vote else refs

    def answers(self, features: Objects) -> list[str | None] | None:
        if not self.is_vote:
            return None
        ours = self.metric.features(list(features))
        are_given = len(features) and isinstance(features[0], _Given)
        return self.metric.answers(self.metric.as_given(ours) if are_given else ours)

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) scores from the cache; missing ones are computed and added."""
        source = source if self.needs_source else None
        table = _table(self.path)
        keys = _Keys.from_texts(self._identity, hyps, refs, source)
        matrix = table.find(keys)  # (H, R), NaN if not cached
        rows, columns = (np.flatnonzero(np.isnan(matrix).any(axis=axis)) for axis in (1, 0))
        if rows.size:
            new = self._compute(hyps[rows], refs[columns], source)
            matrix[np.ix_(rows, columns)] = new
            table.add(keys[rows, columns], new)
        return matrix

    @lazy
    def _identity(self) -> str:
        """Everything that a score depends on besides the texts."""
        return f"{parts_signature(metric=self.metric)} {fingerprint(self.metric)}"

    def _compute(self, hyps: Objects, refs: Objects, source: Objects | None) -> Floats:
        rows: dict[str, int] = {}
        places = [numbered(side, rows) for side in (hyps, refs)]
        features = self.metric.features(list(rows))
        ours, theirs = (features[place] for place in places)
        if isinstance(refs[0], _Given):
            theirs = self.metric.as_given(theirs)
        return self.metric.scores(ours, theirs,
                                  None if source is None else self.metric.features(list(source)))

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        return self.metric.statistics(hyps, refs)

    def corpus(self, statistics: Floats) -> float:
        return self.metric.corpus(statistics)


@dataclass(frozen=True)
class _Keys:
    """Hashes of the metric and of the texts of a block of pairs."""

    metric: bytes
    source: bytes
    hyps: list[bytes]
    refs: list[bytes]

    @classmethod
    def from_texts(cls, metric: str, hyps: Objects, refs: Objects, source: Objects | None) -> _Keys:
        return cls(_digest(metric), b"" if source is None else _digest(source[0]),
                   [_digest(text) for text in hyps], [_digest(text) for text in refs])

    def __getitem__(self, rows_and_columns: tuple[Ints, Ints]) -> _Keys:
        rows, columns = rows_and_columns
        return replace(self, hyps=[self.hyps[row] for row in rows],
                       refs=[self.refs[column] for column in columns])


class _ScoreTable:
    """The scores of pairs, by the hashes of metric and texts."""

    def __init__(self, path: str) -> None:
        self._cache = SqliteCache(path, _TABLE)

    def find(self, keys: _Keys) -> Floats:
        """(H, R) cached scores, NaN if there is none."""
        columns = {ref: column for column, ref in enumerate(keys.refs)}
        scores = np.full((len(keys.hyps), len(keys.refs)), np.nan)
        for row, hyp in enumerate(keys.hyps):
            rows = self._cache.find(
                "SELECT reference, score FROM scores WHERE metric = ? AND source = ? "
                "AND hypothesis = ? AND reference", keys.refs, keys.metric, keys.source, hyp)
            for ref, score in rows:
                if isinstance(score, float) and math.isfinite(score):  # skip corrupt rows
                    scores[row, columns[ref]] = score
        return scores

    def add(self, keys: _Keys, scores: Floats) -> None:
        new = ((keys.metric, keys.source, hyp, ref, score)
               for hyp, line in zip(keys.hyps, scores.tolist(), strict=True)
               for ref, score in zip(keys.refs, line, strict=True) if math.isfinite(score))
        self._cache.write("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?)", new)


def _digest(text: str) -> bytes:
    person = b"given" if isinstance(text, _Given) else b""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=person).digest()


_table = cache(_ScoreTable)  # one per path
