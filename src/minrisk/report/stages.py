"""Pipeline stages of the report: from records to views."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minrisk._core.arrays import Floats
from minrisk._core.batch import Batch
from minrisk._core.errors import InputError
from minrisk._core.strategy import averages_scores, compares_texts
from minrisk.io.jsonl import SampleReader, show
from minrisk.io.record import Record
from minrisk.pipeline.stages import Decode
from minrisk.report.views import View, failed_row
from minrisk.strategies.confident import Confident


@dataclass(frozen=True)
class LogprobReader(SampleReader):
    """Records with the log-probabilities of their samples, also where these are not weights."""

    def parse_fields(self, fields: dict[str, Any], record: Record) -> Record:
        logprobs, of_samples = fields.get("logprobs"), fields.get("sample_logprobs")
        record = super().parse_fields(fields, record)
        if record.segment is not None and record.segment.self_columns is None:
            logprobs = of_samples  # the others are those of the references
        if record.segment is None or logprobs is None:
            return record
        try:
            return record.replace(value=_checked(logprobs, len(record.segment.hypotheses)))
        except InputError as error:
            return record.failed(error)

    def _weights(self, fields: dict[str, Any], texts: list[Any],
                 counts: list[int] | None = None) -> Floats | list[Any] | None:
        if self.weighting.by == "auto":  # shown on the page: no warning that they are unused
            fields = {name: value for name, value in fields.items() if name != "logprobs"}
        return super()._weights(fields, texts, counts)


def _checked(logprobs: Any, count: int) -> list[float]:
    if not isinstance(logprobs, list) or not all(
            isinstance(value, int | float) for value in logprobs):
        raise InputError(f"found logprobs {show(logprobs)}, wanted a list of numbers")
    if len(logprobs) != count:
        raise InputError(f"found {len(logprobs)} logprobs for {count} samples, wanted one each")
    return logprobs


@dataclass(frozen=True)
class BuildViews(Decode):
    """Decode segments, and build their views."""

    view: View = field(kw_only=True)

    def _rank(self, batch: Sequence[Record]) -> Sequence[Record]:
        segments = Batch(r.segment for r in batch if r.segment is not None)
        compares = compares_texts(self.strategy)
        strategy = (Confident(self.strategy, seed=self.view.seed) if compares else self.strategy)
        rankings = strategy.rank(segments)
        return [record.replace(ranking=ranking,
                               value=self.view.segment(record, ranking, pool, compares,
                                                       averages_scores(self.strategy)))
                for record, ranking, pool
                in zip(batch, rankings, segments.pools(self.strategy.metric), strict=True)]


@dataclass(frozen=True)
class ViewWriter:
    """A line per segment: the row of the list, a tab, and the details."""

    def __call__(self, record: Record) -> str:
        row, details = record.value
        return f"{compact_json(row)}\t{compact_json(details)}\n"

    def failed(self, record: Record) -> str:
        return f"{compact_json(failed_row(record))}\t{{}}\n"

    def counts(self, record: Record) -> Mapping[str, int]:
        return {"pairs": record.ranking.pairs if record.ranking else 0}


def compact_json(value: Any) -> str:
    """JSON without a tab or a line break outside of its escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
