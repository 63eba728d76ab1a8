"""Pipeline stages of the report: from records to views."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minrisk._core.batch import Batch
from minrisk._core.segment import Segment
from minrisk._core.strategy import averages_scores, compares_texts
from minrisk.io.record import Record
from minrisk.pipeline.stages import Decode
from minrisk.report.records import SampleFacts, with_dissent
from minrisk.report.views import View, failed_row
from minrisk.strategies.confident import Confident


@dataclass(frozen=True)
class BuildViews(Decode):
    """Decode segments, and build their views."""

    view: View = field(kw_only=True)

    def _rank(self, batch: Sequence[Record]) -> Sequence[Record]:
        segments = Batch(self._segment(r) for r in batch)
        compares = compares_texts(self.strategy)
        strategy = (Confident(self.strategy, seed=self.view.seed) if compares else self.strategy)
        rankings = strategy.rank(segments)
        return [record.replace(ranking=ranking,
                               value=self.view.segment(record, ranking, pool, compares,
                                                       averages_scores(self.strategy)))
                for record, ranking, pool
                in zip(batch, rankings, segments.pools(self.strategy.metric), strict=True)]

    def _segment(self, record: Record) -> Segment:
        assert record.segment is not None
        facts: SampleFacts | None = record.value
        is_vote = self.strategy.metric.is_vote and record.segment.outcomes is None
        return with_dissent(record.segment, facts.dissent if facts and is_vote else 0)


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
