"""A cache of a judge's answers, so that no request is paid for twice."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

from minrisk._core.sqlite_cache import SqliteCache, chunks

_TABLE = "CREATE TABLE IF NOT EXISTS answers (question BLOB PRIMARY KEY, value REAL) WITHOUT ROWID"


class AnswerCache:
    """The parsed answers, by question."""

    def __init__(self, path: str) -> None:
        self._cache = SqliteCache(path, _TABLE)

    def find(self, questions: Sequence[bytes]) -> dict[bytes, float]:
        answers: dict[bytes, float] = {}
        for some in chunks(questions):
            rows = self._cache.read("SELECT question, value FROM answers WHERE question IN "
                                    f"({','.join('?' * len(some))})", some)
            answers |= {question: value for question, value in rows
                        if isinstance(value, float) and math.isfinite(value)}
        return answers

    def add(self, question: bytes, value: float) -> None:
        """Written immediately, so that an interrupt does not lose answers that were paid for."""
        self._cache.write("INSERT OR REPLACE INTO answers VALUES (?, ?)", [(question, value)])


def question(*parts: Any) -> bytes:
    """The key of a question: a hash of everything that its answer depends on."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).digest()


answer_cache = cache(AnswerCache)  # one per path
