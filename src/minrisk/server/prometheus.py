"""Counters, gauges and histograms in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from minrisk._core.texts import valid_unicode

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_MAX_VALUES = 100  # limit of label values, so that clients cannot fill the memory
OTHER = "other"

Labels = tuple[str, ...]


class Counter:
    """A number that only grows, for each combination of labels."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name, self._help, self._labels = name, help, labels
        self._values: dict[Labels, float] = defaultdict(float)

    def add(self, amount: float, *values: str) -> None:
        is_known = values in self._values or len(self._values) < _MAX_VALUES
        self._values[values if is_known else (*values[:-1], OTHER)] += amount

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "counter")
        for values, total in list(self._values.items()):  # another thread may add some
            yield f"{self.name}{_labels(self._labels, values)} {total:.10g}"


class Gauge:
    """A number that is read at each scrape."""

    def __init__(self, name: str, help: str, value: Callable[[], float]) -> None:
        self.name, self._help, self._value = name, help, value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "gauge")
        yield f"{self.name} {self._value():.10g}"


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, name: str, help: str, bounds: Sequence[float]) -> None:
        self.name, self._help, self._bounds = name, help, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "histogram")
        for bound, count in zip([*map(str, self._bounds), "+Inf"], accumulate(self._counts),
                                strict=True):
            yield f'{self.name}_bucket{{le="{bound}"}} {count}'
        yield f"{self.name}_sum {self._sum:.10g}"
        yield f"{self.name}_count {sum(self._counts)}"


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
        self._gauges = [Gauge("minrisk_in_flight", "Requests that are being answered.", in_flight),
                        Gauge("minrisk_queued", "Requests that wait for their first sample.",
                              queued),
                        Gauge("minrisk_drawing", "Samples that are being drawn.", drawing)]

    def count_judge_usage(self, usage: Mapping[str, int]) -> None:
        """Add requests and tokens of judges, of which one thread reports."""
        for name, count in usage.items():
            if name == "requests":
                self._judge_requests.add(count)
            else:
                self._judge_tokens.add(count, token_kind(name))

    def text(self) -> str:
        parts: list[Counter | Gauge | Histogram] = [
            self.requests, self.samples, self.tokens, self._judge_requests, self._judge_tokens,
            *self.seconds.values(), self.confidence, self.abstentions,
            self.passed_through, self.record_failures, *self._gauges]
        return "".join(f"{line}\n" for part in parts for line in part.lines())


def token_kind(name: str) -> str:
    """The label of a field of usage: `prompt_tokens` are of the kind `prompt`."""
    return name.removesuffix("_tokens")


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}" if names else ""


def _escaped(value: str) -> str:
    return valid_unicode(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
