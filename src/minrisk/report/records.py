"""What the page shows of records besides rankings: finish reasons, and requests of a server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.sampler import INCOMPLETE
from minrisk._core.segment import Ranking
from minrisk.io.records import Record
from minrisk.io.segments import SampleReader, candidate_rows, only_rows, show

TRUNCATED = "length"  # the finish reason
_REQUEST_TEXTS, _REQUEST_FLAGS = ("time", "model", "finish_reason"), ("passed_through", "abstained")
_USAGE = ("prompt_tokens", "completion_tokens")
RowAndDetails = tuple[dict[str, Any], dict[str, Any]]  # a row of the list, and its details


@dataclass(frozen=True)
class OtherSample:
    """A sample that was drawn but is not a candidate."""

    text: str
    count: int
    finish_reason: str | None


@dataclass(frozen=True)
class SampleFacts:
    """What a record says about its samples besides texts, in the order of the hypotheses."""

    logprobs: Sequence[float] | None = None
    finish_reasons: Sequence[str | None] | None = None
    others: Sequence[OtherSample] = ()


@dataclass(frozen=True)
class PageRecord(Record):
    """A record with its data for the page."""

    facts: SampleFacts = SampleFacts()
    view: RowAndDetails | None = None  # set after decoding, or at once if nothing is decoded


def facts_of(record: Record) -> SampleFacts:
    return record.facts if isinstance(record, PageRecord) else SampleFacts()


@dataclass(frozen=True)
class PageReader(SampleReader):
    """Reads records with everything that a page shows of their samples.

    Requests that failed or were passed through have nothing to decode: a view, but no segment.
    """

    def parse_fields(self, fields: dict[str, Any], record: Record) -> Record:
        if _has_no_choice(fields):
            row_id = self.ids.of(fields, record.index)
            return record.extended(PageRecord, id=row_id, samples=(),
                                   view=_unranked(fields, row_id))
        rows = candidate_rows(fields)
        others = _other_samples(fields.get("uncompared"))
        if rows is not None:
            others = [*(one for one in _other_samples(fields) if one.finish_reason in INCOMPLETE),
                      *others]
        record = super().parse_fields(fields, record)
        if record.segment is None:
            return record
        if rows is not None:
            fields = only_rows(fields, rows)
        logprobs, of_samples = fields.get("logprobs"), fields.get("sample_logprobs")
        if record.segment.self_columns is None:
            logprobs = of_samples  # with separate references, `logprobs` belongs to these
        size = len(record.segment.hypotheses)
        try:
            return record.extended(PageRecord, facts=SampleFacts(
                None if logprobs is None else _checked(logprobs, size),
                _reasons(fields, size), others))
        except InputError as error:
            return record.failed(error)

    def _weights(self, fields: dict[str, Any], texts: list[Any],
                 counts: list[int] | None = None) -> Floats | list[Any] | None:
        if self.weighting.by == "auto":  # suppress the warning about unused log-probabilities
            fields = {name: value for name, value in fields.items() if name != "logprobs"}
        return super()._weights(fields, texts, counts)


def as_recorded(ranking: Ranking, fields: Mapping[str, Any]) -> Ranking:
    """The ranking, without a proposal that a server did not keep, since it knew the request."""
    recorded = fields.get("proposal")
    reason = recorded.get("reason") if isinstance(recorded, dict) else None
    if ranking.proposal is None or not isinstance(reason, str):
        return ranking
    return replace(ranking, proposal=replace(ranking.proposal, reason=reason))


def request_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a record of `serve` says about its request; None for other records.

    Values of unexpected types are dropped.
    """
    seconds = fields.get("seconds")
    if not isinstance(seconds, dict):
        return None
    facts = {name: fields[name] for name in _REQUEST_TEXTS if isinstance(fields.get(name), str)}
    usage = fields.get("usage")
    facts |= {name: value for name, value in (usage if isinstance(usage, dict) else {}).items()
              if name in _USAGE and _is_number(value)}
    facts["seconds"] = {name: value for name, value in seconds.items() if _is_number(value)}
    return facts | {name: True for name in _REQUEST_FLAGS if fields.get(name) is True}


def shown_source(source: str | None, fields: Mapping[str, Any]) -> str | None:
    """The input of the model: a source, a prompt, or the last message of a chat."""
    if source is not None:
        return source
    prompt, messages = fields.get("prompt"), fields.get("messages")
    if isinstance(prompt, str):
        return prompt
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None


def _has_no_choice(fields: Mapping[str, Any]) -> bool:
    """Whether the record is of a request that a server passed through, or that failed."""
    if "samples" in fields:
        return fields.get("passed_through") is True
    return isinstance(fields.get("status"), int) and "error" in fields and "seconds" in fields


def _unranked(fields: Mapping[str, Any], row_id: Any) -> RowAndDetails:
    """The row and the details of a request that failed or was passed through."""
    row: dict[str, Any] = {"id": row_id, "request": request_of(fields)}
    if "error" in fields:
        return row | {"error": str(fields["error"])}, {}
    answers = _other_samples(fields)
    texts, chosen = [answer.text for answer in answers], fields.get("chosen")
    counts = [answer.count for answer in answers]
    source = fields.get("source")
    row |= {"source": shown_source(source if isinstance(source, str) else None, fields),
            "text": chosen if isinstance(chosen, str) else "".join(texts[:1]), "count": 1,
            "samples": sum(counts), "distinct": len(texts),
            "truncated": sum(one.count for one in answers if one.finish_reason == TRUNCATED)}
    return row, {"texts": texts, "ranks": [*range(len(texts))], "counts": counts,
                 "finish": [answer.finish_reason for answer in answers]}


def _other_samples(columns: Any) -> list[OtherSample]:
    """The samples in columns, if they have the format of `serve`; otherwise an empty list."""
    fields = columns if isinstance(columns, dict) else {}
    texts, counts = _list_of(str, fields.get("samples")), _list_of(int, fields.get("counts"))
    if texts is None or counts is None or len(texts) != len(counts):
        return []
    reasons = _reasons(fields, len(texts)) or [None] * len(texts)
    return [*map(OtherSample, texts, counts, reasons)]


def _reasons(fields: Mapping[str, Any], count: int) -> list[str | None] | None:
    reasons = _list_of(str | None, fields.get("finish_reasons"))
    return reasons if reasons is not None and len(reasons) == count else None


def _list_of(kind: Any, value: Any) -> list[Any] | None:
    """The value, if it is a list of this type."""
    matches = isinstance(value, list) and all(isinstance(item, kind) for item in value)
    return value if matches else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _checked(logprobs: Any, count: int) -> list[float]:
    if not isinstance(logprobs, list) or not all(
            isinstance(value, int | float) for value in logprobs):
        raise InputError(f"found logprobs {show(logprobs)}, expected a list of numbers")
    if len(logprobs) != count:
        raise InputError(f"found {len(logprobs)} logprobs for {count} samples, expected one each")
    return logprobs
