"""`GET /`: the state of the server and its last requests in the inspector's page, for the operator.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from minrisk._core.strategy import Strategy
from minrisk.io.records import Weighting
from minrisk.tasks.inspect import inspect

_MAX_REQUESTS = 100
_MAX_SIZE = 16 << 20  # characters of all records


class _RequestRecord(NamedTuple):
    number: int  # in the order of the answers
    strategy: Strategy | None  # that chose the answer, if there was a choice
    line: str  # of the record


@dataclass(frozen=True)
class Page:
    """The records that a page shows."""

    lines: list[str]
    weighting: Weighting
    note: str

    def render(self, strategy: Strategy) -> bytes:
        records = [self._weighted(json.loads(line)) for line in self.lines]
        return inspect(records, strategy=strategy, title="minrisk serve", note=self.note,
                       unit="request").page

    def _weighted(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with the weights of its samples, where they come from log-probabilities."""
        if "samples" not in record:
            return record
        weights = self.weighting.or_uniform(record).of_columns(record)
        return record if weights is None else record | {"weights": weights.tolist()}


class RecentRequests:
    """The last requests in memory: the records of answers, and those of failures."""

    def __init__(self, weighting: Weighting) -> None:
        self._weighting = weighting
        self._numbers = count()
        self._completions: deque[_RequestRecord] = deque()
        self._size = 0
        self._failures: deque[_RequestRecord] = deque(maxlen=_MAX_REQUESTS)

    def add_completion(self, strategy: Strategy | None, line: str) -> None:
        self._completions.append(_RequestRecord(next(self._numbers), strategy, line))
        self._size += len(line)
        while len(self._completions) > _MAX_REQUESTS or self._size > _MAX_SIZE:
            self._size -= len(self._completions.popleft().line)

    def add_failure(self, line: str) -> None:
        self._failures.append(_RequestRecord(next(self._numbers), None, line))

    def snapshot(self, default: Strategy,
                 state: Mapping[str, object]) -> tuple[Strategy, Page]:
        """The strategy of the newest choice, and the page of its requests and of those without a
        choice, newest first.
        """
        strategy = next((one.strategy for one in reversed(self._completions) if one.strategy),
                        default)
        found = sorted((*self._completions, *self._failures), key=lambda one: -one.number)
        lines = [one.line for one in found if one.strategy in (None, strategy)]
        parts = [f"{name}: {value}" for name, value in state.items()]
        if len(found) > len(lines):
            parts.append(f"answers by other methods: {len(found) - len(lines)}")
        return strategy, Page(lines, self._weighting, " · ".join(parts))
