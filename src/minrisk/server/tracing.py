"""Facts about a request, for the log, the metrics and the record."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

CLIENT_LEFT = 499  # the status that proxies log; it is never sent


@dataclass
class Trace:
    """One request; it contains no texts."""

    id: str
    route: str
    begin: float = field(default_factory=time.monotonic)
    fields: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - begin

    def line(self, status: int) -> str:
        """The line in the log."""
        return json.dumps({"time": now(), "id": self.id, "route": self.route, "status": status,
                           **self.fields, "seconds": self.rounded_seconds()})

    def failure(self, status: int) -> str:
        """The record of a request that failed, for the page."""
        code = self.fields.get("error", "client_left" if status == CLIENT_LEFT else str(status))
        reason = f"{status} {HTTPStatus(status).phrase if code == str(status) else code}"
        return json.dumps({"id": self.id, "time": now(), "model": self.fields.get("model"),
                           "status": status, "error": reason, "seconds": self.rounded_seconds()})

    def rounded_seconds(self) -> dict[str, float]:
        """The seconds of each step, and those since the request came."""
        found = {"request": time.monotonic() - self.begin} | self.seconds
        return {name: round(value, 6) for name, value in found.items()}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def log(line: str) -> None:
    """Write one line with a single flush."""
    print(line, file=sys.stderr, flush=True)


def usage_counts(usage: Mapping[str, Any] | None) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens")
    return {name: usage[name] for name in names if name in usage} if usage else {}
