"""`GET /`: the state of the server and its last requests in the inspector's page, for the operator.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from minrisk._api.inspecting import inspect
from minrisk._core.strategy import Strategy
from minrisk.io.record import Weighting

_MAX_REQUESTS = 100
_MAX_SIZE = 16 << 20  # characters of all records
_MAX_REASONS = 3  # reasons of failures in the note


class _CompletionRecord(NamedTuple):
    strategy: Strategy  # that chose the answer
    line: str  # of the record


@dataclass(frozen=True)
class Page:
    """The records that a page shows."""

    lines: list[str]
    weighting: Weighting
    note: str

    def render(self, strategy: Strategy) -> bytes:
        records = [self._weighted(json.loads(line)) for line in self.lines]
        return inspect(records, strategy=strategy, title="minrisk serve", note=self.note).page

    def _weighted(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with the weights of its samples, where they come from log-probabilities."""
        weights = self.weighting.or_uniform(record).of_columns(record)
        return record if weights is None else record | {"weights": weights.tolist()}


class RecentRequests:
    """The last requests in memory: the records of answers, and the reasons of failures."""

    def __init__(self, weighting: Weighting) -> None:
        self._weighting = weighting
        self._completions: deque[_CompletionRecord] = deque()
        self._size = 0
        self._failures: deque[str] = deque(maxlen=_MAX_REQUESTS)

    def add_completion(self, strategy: Strategy, line: str) -> None:
        self._completions.append(_CompletionRecord(strategy, line))
        self._size += len(line)
        while len(self._completions) > _MAX_REQUESTS or self._size > _MAX_SIZE:
            self._size -= len(self._completions.popleft().line)

    def add_failure(self, status: int, code: str | None) -> None:
        self._failures.append(f"{status} {code}" if code and code != str(status) else str(status))

    def snapshot(self, default: Strategy,
                 state: Mapping[str, object]) -> tuple[Strategy, Page]:
        """The strategy of the newest answer, and the page of its answers, newest first."""
        strategy = self._completions[-1].strategy if self._completions else default
        lines = [one.line for one in reversed(self._completions) if one.strategy == strategy]
        return strategy, Page(lines, self._weighting, self._note(state, len(lines)))

    def _note(self, state: Mapping[str, object], shown: int) -> str:
        """The state of the server, and the requests that the page does not show."""
        parts = [f"{name}: {value}" for name, value in state.items()]
        if len(self._completions) > shown:
            parts.append(f"answers by other methods: {len(self._completions) - shown}")
        if self._failures:
            reasons = Counter(self._failures).most_common(_MAX_REASONS)
            parts.append(f"failed requests: {len(self._failures)} ("
                         + ", ".join(f"{reason}: {count}" for reason, count in reasons) + ")")
        return " · ".join(parts)
