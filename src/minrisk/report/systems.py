"""Systems compared: by expected utility, and by human references if there are any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, MinriskError
from minrisk._core.metric import AnyMetric
from minrisk.evaluation.metric_bias import Origin, shared_metrics
from minrisk.evaluation.scoring import Score, compare_means, score
from minrisk.evaluation.stages import read_trial_results
from minrisk.evaluation.study import Trial
from minrisk.evaluation.validation import summarise
from minrisk.io.inputs import InputFile
from minrisk.report.views import CHOICE, number, numbers

RESAMPLES = 1000
SegmentColumn = list[Any]


@dataclass
class Systems:
    """The outputs of all systems, added segment by segment."""

    segments: int = 0
    texts: dict[str, SegmentColumn] = field(default_factory=dict)  # None: no output
    utilities: dict[str, SegmentColumn] = field(default_factory=dict)
    human: list[list[str]] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        outputs: dict[str, Sequence[Any]] = row.pop("systems", {})
        for name in outputs:
            self.texts.setdefault(name, [None] * self.segments)
            self.utilities.setdefault(name, [None] * self.segments)
        for name in self.texts:
            text, utility = outputs.get(name, (None, None))
            self.texts[name].append(text)
            self.utilities[name].append(utility)
        self.human.append(row.pop("human", []))
        self.sources.append(row.get("source"))
        self.segments += 1

    def compared(self, metric: AnyMetric, origins: Mapping[str, Origin | None]) -> dict[str, Any]:
        """The data for the page; only systems with an output for every segment are compared.

        `biased` names systems that the metric chose, according to their origins, and its parts that
        did.
        """
        judged = self._judged(metric)
        return {
            "names": list(self.texts),
            "same": [self._same(column) for column in self.texts.values()],
            "utilities": list(self.utilities.values()),
            "scores": [judged.get(name, {}).get("sentences") for name in self.texts],
            "by_utility": self._by_utility(),
            "by_reference": {name: found["summary"] for name, found in judged.items()},
            "biased": {name: shared for name in judged
                       if (shared := shared_metrics(origins.get(name), metric))},
        }

    def _same(self, column: SegmentColumn) -> list[int | None]:
        """1 where the text equals the choice, 0 where it differs, None without a text."""
        return [None if text is None else int(text == choice)
                for text, choice in zip(column, self.texts[CHOICE], strict=True)]

    def _by_utility(self) -> dict[str, Any]:
        rows = self._rows(self.utilities.values())
        values: dict[str, Floats] = {
            name: np.array([column[i] for i in rows], np.float64)
            for name, column in self._complete(self.utilities, rows).items()}
        if not values or not rows:
            return {}
        return {name: _summary(value)
                for name, value in compare_means(values, RESAMPLES).items()}

    def _judged(self, metric: AnyMetric) -> dict[str, dict[str, Any]]:
        """Scores by the same metric against human references, for segments that have any."""
        rows = [i for i in self._rows(self.texts.values()) if self.human[i]]
        systems = {name: [column[i] for i in rows]
                   for name, column in self._complete(self.texts, rows).items()}
        if not rows or not systems:
            return {}
        sources = [self.sources[i] or "" for i in rows] if metric.needs_source else None
        try:
            scores = score(systems, [self.human[i] for i in rows], sources, metric=metric,
                           resamples=RESAMPLES)
        except MinriskError:  # the metric uses no references, or rejects these
            return {}
        return {name: {"summary": _summary(result), "sentences": self._spread(result, rows)}
                for name, result in scores.items()}

    def _spread(self, result: Score, rows: Sequence[int]) -> SegmentColumn:
        column: SegmentColumn = [None] * self.segments
        for row, value in zip(rows, numbers(result.sentences), strict=True):
            column[row] = value
        return column

    def _rows(self, columns: Iterable[SegmentColumn]) -> list[int]:
        """Indices of the segments that did not fail: they have an output."""
        given = list(columns)
        return [i for i in range(self.segments) if any(c[i] is not None for c in given)]

    @staticmethod
    def _complete(columns: dict[str, SegmentColumn],
                  rows: Sequence[int]) -> dict[str, SegmentColumn]:
        return {name: column for name, column in columns.items()
                if all(column[i] is not None for i in rows)}


def _summary(result: Score) -> dict[str, Any]:
    return {"value": number(result.value), "interval": number(result.interval or 0.0),
            "p": None if result.p_value is None else number(result.p_value),
            "ahead": None if result.ahead is None else [number(x) for x in result.ahead]}


def read_validation(path: str) -> dict[str, Any]:
    """The results of `minrisk validate -o`: strategies at each budget, and the recommendation."""
    source, advice = InputFile.at(path).open(), "give what `minrisk validate -o` wrote"
    results = list(read_trial_results(source, advice))
    if not results:
        raise InputError(f"{source.name}: no results of trials; {advice}")
    summary = summarise([Trial(label) for label in results[0].outcomes], results).as_json()
    return summary | {"trials": [_trial(trial) for trial in summary["trials"]]}


def _trial(fields: dict[str, Any]) -> dict[str, Any]:
    label: str = fields.pop("strategy")
    strategy, _, budget = label.partition(" ")
    return fields | {"label": label, "strategy": strategy, "budget": budget}
