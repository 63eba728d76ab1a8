"""What the operator can observe: the log, metrics, records, and the page at `GET /`."""

from __future__ import annotations

import json
import os
import sys
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import import_module
from itertools import accumulate, chain
from typing import Any, NamedTuple

from minrisk._core.errors import InputError
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk._core.texts import valid_unicode
from minrisk.io.files import as_input_error
from minrisk.io.store import try_lock
from minrisk.io.weighting import Weighting
from minrisk.tasks.inspect import inspect

CLIENT_LEFT = 499  # nginx's status for a client that disconnected; only logged
OTHER = "other"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_MAX_VALUES = 100  # combinations of labels per counter, so that clients cannot fill the memory
_TAIL = 1 << 16  # bytes read per step while searching for the last complete line
_MODE = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)  # Windows only
_MAX_REQUESTS = 100  # completions, and failures, that the page shows
_MAX_STRATEGIES = 256  # that the page knows; clients may send a seed
_MAX_SIZE = 16 << 20  # characters of all completions that the page shows


# the log


@dataclass
class Trace:
    """What the log says of one request; it contains no texts.

    Its line has `time`, `id`, `route`, `status` and `seconds` beside the `fields`; that of an
    internal error has the traceback as `trace`.
    """

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

    def finish(self) -> None:
        self.seconds["request"] = time.monotonic() - self.begin

    def line(self, status: int) -> str:
        """The line in the log."""
        return json.dumps({"time": now(), "id": self.id, "route": self.route, "status": status,
                           **self.fields, "seconds": self.rounded_seconds()})

    def failure(self, status: int) -> str:
        """The page's record of a failed request."""
        code = self.fields.get("error", "client_left" if status == CLIENT_LEFT else str(status))
        reason = f"{status} {HTTPStatus(status).phrase if code == str(status) else code}"
        return json.dumps({"id": self.id, "time": now(), "model": self.fields.get("model"),
                           "status": status, "error": reason, "seconds": self.rounded_seconds()})

    def rounded_seconds(self) -> dict[str, float]:
        """The duration of each step, and of the whole request so far."""
        seconds = {"request": time.monotonic() - self.begin} | self.seconds
        return {name: round(value, 6) for name, value in seconds.items()}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def log(line: str) -> None:
    """Write one line with a single flush."""
    print(line, file=sys.stderr, flush=True)


def usage_counts(usage: Mapping[str, Any] | None) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens")
    return {name: usage[name] for name in names if name in usage} if usage else {}


# metrics


class Counter:
    """A Prometheus counter: one increasing total per combination of labels."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name, self._help, self._labels = name, help, labels
        self._values: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, amount: float, *values: str) -> None:
        is_known = values in self._values or len(self._values) < _MAX_VALUES
        self._values[values if is_known else (*values[:-1], OTHER)] += amount

    @property
    def state(self) -> list[tuple[Sequence[str], float]]:
        return list(self._values.items())  # a copy: other threads may add values

    def restore(self, state: list[tuple[Sequence[str], float]]) -> None:
        for values, total in state:
            self._values[tuple(values)] += total

    def lines(self, others: Sequence[list[tuple[Sequence[str], float]]] = ()) -> Iterator[str]:
        """The sum of this counter and of the states of others."""
        yield from _head(self.name, self._help, "counter")
        totals: dict[tuple[str, ...], float] = defaultdict(float)
        for values, total in chain(self.state, *others):
            totals[tuple(values)] += total
        for labels, total in totals.items():
            yield f"{self.name}{_labels(self._labels, labels)} {total:.10g}"


class Gauge:
    """A Prometheus gauge: a value that is read at each scrape."""

    def __init__(self, name: str, help: str, value: Callable[[], float],
                 is_shared: bool = False) -> None:
        self.name, self._help, self._value = name, help, value
        self._is_shared = is_shared  # its value is that of all processes

    @property
    def state(self) -> float:
        return self._value()

    def restore(self, state: float) -> None:
        """Nothing: its value is that of now."""

    def lines(self, others: Sequence[float] = ()) -> Iterator[str]:
        yield from _head(self.name, self._help, "gauge")
        yield f"{self.name} {self._value() + (0 if self._is_shared else sum(others)):.10g}"


class Histogram:
    """A Prometheus histogram: counts of values up to each bound."""

    def __init__(self, name: str, help: str, bounds: Sequence[float]) -> None:
        self.name, self._help, self._bounds = name, help, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def state(self) -> tuple[list[int], float]:
        return [*self._counts], self._sum

    def restore(self, state: tuple[list[int], float]) -> None:
        self._counts = [*map(sum, zip(self._counts, state[0], strict=True))]
        self._sum += state[1]

    def lines(self, others: Sequence[tuple[list[int], float]] = ()) -> Iterator[str]:
        yield from _head(self.name, self._help, "histogram")
        states = self.state, *others
        counts = [*map(sum, zip(*(counts for counts, _ in states), strict=True))]
        for bound, count in zip([*map(str, self._bounds), "+Inf"], accumulate(counts),
                                strict=True):
            yield f'{self.name}_bucket{{le="{bound}"}} {count}'
        yield f"{self.name}_sum {sum(total for _, total in states):.10g}"
        yield f"{self.name}_count {sum(counts)}"


class ServerMetrics:
    """The counters, gauges and histograms of a server."""

    def __init__(self, in_flight: Callable[[], float], queued: Callable[[], float],
                 drawing: Callable[[], float]) -> None:
        self.requests = Counter("minrisk_requests_total", "Requests by their status.",
                                "route", "status", "model")
        self.samples = Counter("minrisk_samples_total", "Samples by outcome.", "kind")
        self.tokens = Counter("minrisk_tokens_total", "Tokens reported by the upstream.", "kind")
        self._judge_requests = Counter("minrisk_judge_requests_total",
                                       "Requests that judges answered.")
        self._judge_tokens = Counter("minrisk_judge_tokens_total", "Tokens reported by judges.",
                                     "kind")
        self.seconds = {name: Histogram(f"minrisk_{name}_seconds", f"Seconds of {what}.", _SECONDS)
                        for name, what in (("request", "a whole request"),
                                           ("sampling", "drawing its samples"),
                                           ("choosing", "choosing one of them"))}
        self.abstentions = Counter("minrisk_abstentions_total",
                                   "Answers without text, because the samples disagree.")
        self.passed_through = Counter("minrisk_passed_through_total", "Requests with nothing to "
                                      "choose from: temperature 0, or one sample.")
        self.record_failures = Counter("minrisk_record_failures_total",
                                       "Answers that could not be recorded.")
        self.confidence = Histogram("minrisk_confidence", "Confidence in choices.", _SHARES)
        self._gauges = {
            gauge.name: gauge for gauge in (
                Gauge("minrisk_in_flight", "Requests that are being answered.", in_flight),
                Gauge("minrisk_queued", "Requests that wait for their first sample.", queued, True),
                Gauge("minrisk_drawing", "Samples that are being drawn.", drawing, True))}

    def count_judge_usage(self, usage: Mapping[str, int]) -> None:
        """Add requests and tokens of judges; called from one thread only."""
        for name, count in usage.items():
            if name == "requests":
                self._judge_requests.add(count)
            else:
                self._judge_tokens.add(count, token_kind(name))

    def count_request(self, trace: Trace, status: int, model: str) -> None:
        self.requests.add(1, trace.route, str(status), model)
        for name, seconds in trace.seconds.items():
            self.seconds[name].add(seconds)

    def count_samples(self, counts: Mapping[str, int], usage: Mapping[str, int]) -> None:
        """Add samples by outcome, and the tokens that the upstream reports."""
        for kind, count in counts.items():
            self.samples.add(count, kind)
        for name, count in usage.items():
            self.tokens.add(count, token_kind(name))

    def count_answer(self, summary: Mapping[str, Any]) -> None:
        """Add the statistics in the `minrisk` object of an answer."""
        if "distinct" in summary:
            self.samples.add(summary["distinct"], "distinct")
        if summary.get("passed_through"):
            self.passed_through.add(1)
        if summary.get("abstained"):
            self.abstentions.add(1)
        if summary.get("confidence") is not None:
            self.confidence.add(summary["confidence"])

    @property
    def state(self) -> dict[str, Any]:
        """The values as JSON, for other processes that add theirs."""
        return {part.name: part.state for part in self._parts()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Add the counts of a process that has died."""
        for part in self._parts():
            part.restore(state[part.name])

    def text(self, others: Sequence[Mapping[str, Any]] = ()) -> str:
        """All attributes, in the order in which they are declared, with the states of others."""
        return "".join(f"{line}\n" for part in self._parts()
                       for line in part.lines([state[part.name] for state in others]))

    def _parts(self) -> Iterator[Any]:
        for part in vars(self).values():
            yield from part.values() if isinstance(part, dict) else (part,)


def token_kind(name: str) -> str:
    """The label for a field of `usage`: `prompt` for `prompt_tokens`."""
    return name.removesuffix("_tokens")


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}" if names else ""


def _escaped(value: str) -> str:
    return valid_unicode(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# records


class Recorder:
    """Appends whole lines to a file, which it locks against other servers.

    Lines are synced to disk before their requests are answered. An incomplete last line is removed
    after a failed write (as on a full disk), and when the file is opened again after a crash.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with as_input_error("write", path):
            self._file = os.open(path, _MODE, 0o600)
        if not try_lock(self._file):
            os.close(self._file)
            raise InputError(f"{path} is being written by another server; give each server its own "
                             "file")
        _cut_torn_line(self._file)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="minrisk-record")

    def append(self, line: str) -> Future[None]:
        """A future that is done when the line is on the disk."""
        # JSON may contain lone surrogates, which UTF-8 cannot encode: they become U+FFFD
        return self._thread.submit(self._write, valid_unicode(line).encode())

    def close(self) -> None:
        self._thread.shutdown()
        os.close(self._file)

    def _write(self, line: bytes) -> None:
        with _turn(self._file):
            _cut_torn_line(self._file)  # of another process of this server, which has died
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._file, left):]
            except OSError:
                _cut_torn_line(self._file)  # the next line must not be appended to a part of it
                raise
        os.fsync(self._file)


@contextmanager
def _turn(file: int) -> Iterator[None]:
    """Wait until no other process of this server writes to the file; ends with the process."""
    try:
        fcntl: Any = import_module("fcntl")
    except ImportError:  # without it, a server has one process
        yield
        return
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)


def _cut_torn_line(file: int) -> None:
    """Remove an incomplete last line."""
    end = os.fstat(file).st_size
    if end and os.lseek(file, end - 1, os.SEEK_SET) >= 0 and os.read(file, 1) == b"\n":
        return
    start = end
    while start > 0:
        size = min(_TAIL, start)
        os.lseek(file, start - size, os.SEEK_SET)
        newline = os.read(file, size).rfind(b"\n")
        if newline >= 0:
            start = start - size + newline + 1
            break
        start -= size
    if start < end:
        os.ftruncate(file, start)


# the page


class RequestRecord(NamedTuple):
    """A request, as processes of a server tell it each other."""

    seconds: float  # when it was answered, on the monotonic clock of the machine
    method: str | None  # signature of the strategy; None: nothing to choose from, or a failure
    line: str  # JSON record


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
        """The record with the weights of its samples, if log-probabilities determine them."""
        if "samples" not in record:
            return record
        weights = self.weighting.or_uniform(record).of_columns(record)
        return record if weights is None else record | {"weights": weights.tolist()}


class RecentRequests:
    """The latest requests, in memory: records of completions and of failures."""

    def __init__(self, weighting: Weighting, strategies: Iterable[Strategy] = ()) -> None:
        self._weighting = weighting
        self._strategies = {str(signature(strategy)): strategy for strategy in strategies}
        self._completions: deque[RequestRecord] = deque()
        self._size = 0
        self._failures: deque[RequestRecord] = deque(maxlen=_MAX_REQUESTS)

    def add_completion(self, strategy: Strategy | None, line: str) -> None:
        method = None if strategy is None else str(signature(strategy))
        if strategy is not None and method is not None and (
                method in self._strategies or len(self._strategies) < _MAX_STRATEGIES):
            self._strategies[method] = strategy
        self._completions.append(RequestRecord(time.monotonic(), method, line))
        self._size += len(line)
        while len(self._completions) > _MAX_REQUESTS or self._size > _MAX_SIZE:
            self._size -= len(self._completions.popleft().line)

    def add_failure(self, line: str) -> None:
        self._failures.append(RequestRecord(time.monotonic(), None, line))

    @property
    def records(self) -> list[RequestRecord]:
        return [*self._completions, *self._failures]

    def snapshot(self, default: Strategy, state: Mapping[str, object],
                 others: Iterable[RequestRecord] = ()) -> tuple[Strategy, Page]:
        """The latest strategy that chose, and a page, newest first, of all requests that it decided
        or that had nothing to choose from; with the records of other processes.

        A strategy by which only other processes have chosen may be unknown here.
        """
        records = sorted((*self.records, *others), key=lambda one: -one.seconds)
        records = records[:2 * _MAX_REQUESTS]
        method = next((one.method for one in records if one.method in self._strategies), None)
        strategy = default if method is None else self._strategies[method]
        lines = [one.line for one in records if one.method in (None, method)]
        parts = [f"{name}: {value}" for name, value in state.items()]
        if len(records) > len(lines):
            parts.append(f"answers by other methods: {len(records) - len(lines)}")
        return strategy, Page(lines, self._weighting, " · ".join(parts))
