"""The choice that all integrations share: the best of some texts, and what to report of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minrisk._core.decoding import METRIC, MetricLike, StrategyLike, make_metric
from minrisk._core.errors import InputError, brief, warn
from minrisk.io.formats import json_line
from minrisk.io.writers import measures
from minrisk.tasks.decode import decode_corpus
from minrisk.tasks.results import DecodedSegment

SAMPLES = 16  # samples that integrations draw; few, because language models may cost money


class Chooser:
    """Chooses among texts, by a metric and a strategy.

    Args:
        metric: a metric, its name or class, or a function of hypothesis and reference.
        strategy: a strategy, its name or class [default: standard MBR].
        metric_options: options of a metric that is given by name.
        options: those of `minrisk.decode_corpus` without an output: `abstain`, `uncertainty`,
            `seed`, options of a strategy that is given by name, and so on. `confidence` is on.

    Raises:
        InputError: if a name or an option is wrong.

    >>> found = Chooser("exact-match", metric_options={"pattern": r"\\d+"})(["4", "It is 4.", "5"])
    >>> found.text, report(found)["answer"]
    ('4', '4')
    """

    def __init__(self, metric: MetricLike = METRIC, strategy: StrategyLike | None = None,
                 metric_options: Mapping[str, Any] | None = None, **options: Any) -> None:
        if not isinstance(metric_options, Mapping | None):
            raise InputError("metric_options must be a mapping of names to values; got "
                             f"{brief(metric_options)}")
        if "output" in options:
            raise InputError("output= is not an option here: the framework stores the result in "
                             "its metadata")
        if metric_options and not isinstance(metric, str):
            raise InputError("metric_options are for a metric given by name; pass them to the "
                             "metric's constructor")
        self._arguments = {
            "metric": make_metric(metric, **metric_options) if isinstance(metric, str)
            and metric_options else metric, "strategy": strategy, "confidence": True, **options}
        decode_corpus([], **self._arguments).close()  # wrong options are an error here and now

    def __call__(self, texts: Sequence[str], source: str | None = None) -> DecodedSegment:
        """The best of the texts; `source` is what they answer, for metrics that need it."""
        [found] = self.each([(texts, source)])
        return found

    def each(self, problems: Iterable[tuple[Sequence[str], str | None]]
             ) -> Iterator[DecodedSegment]:
        """The best of the texts of each problem; those of many are compared in batches."""
        return decode_corpus(({"samples": list(texts)} | ({} if source is None else {
            "source": source}) for texts, source in problems), **self._arguments)


def successful(runs: Iterable[Any]) -> list[Any]:
    """The outputs of runs that have not failed, with a warning of the others.

    Raises:
        Exception: that of the first run, if all have failed.
    """
    found: list[Any] = []
    failures: list[Exception] = []
    for one in runs:
        (failures if isinstance(one, Exception) else found).append(one)
    if failures and not found:
        raise failures[0]
    if failures:
        warn(f"{len(failures)} of {len(failures) + len(found)} runs have failed, the first with "
             f"{type(failures[0]).__name__}: {brief(str(failures[0]))}")
    return found


def report(found: DecodedSegment) -> dict[str, Any]:
    """What to log of a choice, as JSON: index, utility, votes, confidence and signature."""
    fields: dict[str, Any] = json.loads(json_line({
        "index": found.index, "utility": found.utility, "abstained": found.abstained,
        "samples": int(found.segment.counts.sum()), **found.details, **measures(found.ranking),
        "signature": found.ranking.signature}))
    return fields
