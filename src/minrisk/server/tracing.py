"""Facts about a request, for the log, the metrics and the record."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
        rounded = {name: round(value, 6) for name, value in self.seconds.items()}
        return json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                           "id": self.id, "route": self.route, "status": status,
                           **self.fields, "seconds": rounded})


def log(line: str) -> None:
    """Write one line with a single flush."""
    print(line, file=sys.stderr, flush=True)


def usage_counts(usage: Mapping[str, Any] | None) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens")
    return {name: usage[name] for name in names if name in usage} if usage else {}
