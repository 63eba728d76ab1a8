"""Writers: records as lines of the output, in JSON or plain text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol

from minrisk._core.arrays import finite_numbers, finite_or_none
from minrisk._core.errors import InputError, Wording
from minrisk._core.sampler import Samples, columns, number_drawn, sample_columns
from minrisk._core.segment import Confidence, Ranking, Segment, Uncertainty
from minrisk.io.record import Record

Format = Literal["json", "text"]
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Writer(Protocol):
    """Renders a finished record as its lines of the output."""

    def __call__(self, record: Record) -> str: ...

    def failed(self, record: Record) -> str:
        """The lines of a record that failed; it keeps its place if the format has one line each."""

    def counts(self, record: Record) -> Mapping[str, int]:
        """Counts of a record for the report."""


@dataclass(frozen=True)
class ChoiceWriter:
    """Writes the best hypothesis of every segment, unless the samples disagree too much."""

    format: Format = "json"
    nbest: int | None = None
    utilities: bool = False
    abstain: float | None = None  # minimum share of the largest cluster, or there is no text
    samples: bool = False  # also the samples, of which some may be no candidates

    def __call__(self, record: Record) -> str:
        assert record.segment is not None
        assert record.ranking is not None
        ranking = record.ranking.abstain_below(self.abstain)
        if self.format == "text":
            return self._lines(record.segment, ranking)
        drawn = self._drawn(record)
        listed = drawn.get("samples", record.segment.hypotheses)
        computed = {"id": record.id,
                    **choice_fields(record.segment, ranking, listed),
                    **record.details, **self._details(record.segment, ranking, listed), **drawn}
        passed = {k: v for k, v in record.fields.items() if k not in computed}
        return json_line(computed | passed)

    def failed(self, record: Record) -> str:
        return "\n" * (self.nbest or 1) if self.format == "text" else error_line(record)

    def counts(self, record: Record) -> Mapping[str, int]:
        counts = {"pairs": record.ranking.pairs if record.ranking else 0}
        counts |= {f"judge_{name}": count
                   for name, count in record.details.get("judge_usage", {}).items()}
        return counts if record.samples is None else counts | count_samples(record)

    def _drawn(self, record: Record) -> dict[str, Any]:
        """The samples, how many were drawn, and how many of these were no candidates."""
        if not self.samples or record.samples is None or self.format == "text":
            return {}
        assert record.segment is not None
        drawn = number_drawn(record.samples)
        return {**sample_columns(record.samples, record.reference_samples), "drawn": drawn,
                "dropped": drawn - int(record.segment.counts.sum())}

    def _lines(self, segment: Segment, ranking: Ranking) -> str:
        """As many lines for every segment, so that a reader finds where each begins."""
        size = self.nbest or 1
        order = [] if ranking.abstained else ranking.order[:size].tolist()
        return text_lines([segment.hypotheses[i] for i in order], size)

    def _details(self, segment: Segment, ranking: Ranking,
                 listed: Sequence[str]) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.nbest:
            order = ranking.order[: self.nbest].tolist()
            details["nbest"] = [_hypothesis(segment, ranking, i, listed) for i in order]
        if self.utilities:
            details["utilities"] = [finite_or_none(u) for u in ranking.utility.tolist()]
            details["pairs"] = ranking.pairs
        if ranking.confidence:
            details["confidence"] = confidence_fields(ranking.confidence)
        if ranking.uncertainty:
            details["uncertainty"] = uncertainty_fields(ranking.uncertainty)
        return details


@dataclass(frozen=True)
class SampleWriter:
    """Writes the samples of every prompt, in a format that `minrisk decode` reads."""

    repeat: bool = False
    lines: int | None = None  # number of samples of each prompt, if they are written as plain text

    def __call__(self, record: Record) -> str:
        assert record.samples is not None
        if self.lines is not None:
            return self._text(columns(record.samples, repeat=True)["samples"], self.lines)
        found = sample_columns(record.samples, record.reference_samples, self.repeat)
        return json_line({"id": record.id, **record.fields, **found})

    def failed(self, record: Record) -> str:
        return error_line(record, record.fields) if self.lines is None else "\n" * self.lines

    def _text(self, texts: Sequence[str], size: int) -> str:
        if len(texts) != size:
            raise InputError(Wording("found {texts} samples; plain text has {size} lines for every "
                                     "prompt: give format='json'", texts=len(texts), size=size))
        return text_lines(texts, size)

    def counts(self, record: Record) -> Mapping[str, int]:
        return count_samples(record)


def confidence_fields(found: Confidence) -> dict[str, Any]:
    fields: dict[str, Any] = {"margin": finite_or_none(found.margin),
                              "probability": finite_or_none(found.probability)}
    if found.share is not None:
        fields |= {"share": found.share, "interval": found.interval}
    return fields if found.reason is None else fields | {"reason": found.reason}


def uncertainty_fields(found: Uncertainty) -> dict[str, Any]:
    return {"entropy": found.entropy, "largest": found.largest,
            "utility": finite_or_none(found.utility), "clusters": found.clusters,
            "unanswered": found.unanswered}


def count_samples(record: Record) -> dict[str, int]:
    """The numbers of samples and tokens, those of separate references included."""
    total = Counter(samples=0, tokens=0)
    for found in (record.samples or (), record.reference_samples or ()):
        usage = found.usage if isinstance(found, Samples) and found.usage else {}
        total.update({"samples": sum(s.count for s in found),
                      "tokens": sum(s.count * len(s.tokens) for s in found), **usage})
    return dict(total)


def json_line(fields: Mapping[str, Any]) -> str:
    try:
        line = _JSON.encode(fields)
    except ValueError:  # a copied field may hold NaN or an infinity
        line = json.dumps(finite_numbers(fields), ensure_ascii=False)
    return line + "\n"


def error_line(record: Record, fields: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The line of a record that failed, with the reason."""
    return json_line({"id": record.id, **fields, "error": record.message})


def choice_fields(segment: Segment, ranking: Ranking, listed: Sequence[str]) -> dict[str, Any]:
    """The choice with its place among the texts that the output or the input lists."""
    best = _hypothesis(segment, ranking, ranking.best, listed)
    return best | {"text": None, "abstained": True} if ranking.abstained else best


def _hypothesis(segment: Segment, ranking: Ranking, row: int,
                listed: Sequence[str]) -> dict[str, Any]:
    text, utility = segment.hypotheses[row], finite_or_none(float(ranking.utility[row]))
    index = row if listed is segment.hypotheses else listed.index(text)
    return {"text": text, "index": index, "utility": utility}


def text_lines(texts: Sequence[str], size: int) -> str:
    """Texts as lines, and blank lines up to this number."""
    return "".join(re.sub(r"\r\n|\r|\n", " ", text) + "\n" for text in texts) + "\n" * (
        size - len(texts))
