"""Results of calls for whole corpora: an object for each segment, or a summary of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minrisk._core.errors import InputError
from minrisk._core.sample_columns import sample_columns
from minrisk._core.sampler import Sample, usage_of
from minrisk._core.segment import Ranking, Segment, shortened
from minrisk.io.jsonl import columns_of, source_of
from minrisk.io.record import AUTO, Record, segment_of


@dataclass(frozen=True, repr=False)
class DecodedSegment:
    """The result of one segment of a corpus.

    If the segment failed, `error` is the reason, and `ranking` and `text` raise it.

    >>> import minrisk
    >>> good, bad = minrisk.decode_corpus([["a b", "a b", "c"], []])
    >>> good.text, good.index, good.ranking.utility.round(1).tolist()
    ('a b', 0, [66.7, 66.7, 33.3])
    >>> good
    DecodedSegment(id=0, index=0, text='a b')
    >>> bad.error
    'segment 1: zero hypotheses; at least one is needed'
    """

    id: Any  # the id in the input, or the index if it has none
    index: int  # its place in the input
    error: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of the input
    details: Mapping[str, Any] = field(default_factory=dict)  # the metric's, about the choice
    samples: Sequence[Sample] | None = None  # those of `translate` and `answer`, otherwise None
    reference_samples: Sequence[Sample] | None = None  # those of separate references
    _ranking: Ranking | None = None
    _segment: Segment | None = None

    def __repr__(self) -> str:
        found = (f"error={self.error!r}" if self._ranking is None
                 else f"text={shortened(self.text)}")
        return f"DecodedSegment(id={self.id!r}, index={self.index}, {found})"

    @property
    def ranking(self) -> Ranking:
        if self._ranking is None:
            raise InputError(self.error)
        return self._ranking

    @property
    def segment(self) -> Segment:
        """The hypotheses and references."""
        if self._segment is None:
            raise InputError(self.error)
        return self._segment

    @property
    def text(self) -> str:
        """The chosen hypothesis."""
        return self.ranking.text

    @property
    def utility(self) -> float:
        """The utility of the chosen hypothesis."""
        return float(self.ranking.utility[self.ranking.best])

    @property
    def answer(self) -> str | None:
        """The answer in the text, if the metric extracts answers."""
        found: str | None = self.details.get("answer")
        return found

    @property
    def usage(self) -> dict[str, int] | None:
        """Tokens that the samples of `translate` took, references included, if they are known."""
        return _usage(self.samples, self.reference_samples)

    @classmethod
    def of(cls, record: Record, signature: str) -> DecodedSegment:
        ranking = record.ranking
        if ranking is not None and record.segment is not None:
            ranking = replace(ranking, hypotheses=record.segment.hypotheses, signature=signature)
        return cls(record.id, record.index, _error(record), record.fields, record.details,
                   record.samples, record.reference_samples, ranking, record.segment)

    def as_record(self) -> dict[str, Any]:
        """The fields of a JSON line with the choice and the samples, which every call reads."""
        samples = (columns_of(self.segment) if self.samples is None
                   else sample_columns(self.samples, self.reference_samples))
        index = self.ranking.best if self.samples is None else samples["samples"].index(self.text)
        choice = {"text": self.text, "index": index, "utility": self.utility}
        return {**self.fields, "id": self.id, **choice, **self.details, **samples}


@dataclass(frozen=True, repr=False)
class SampledPrompt:
    """The samples of one prompt.

    If the prompt failed, `error` is the reason, and `samples` and `texts` raise it.

    >>> from minrisk.plugins import Sample, Samples
    >>> found = SampledPrompt(0, 0, _samples=Samples([Sample("a", count=2), Sample("b")],
    ...                                              {"completion_tokens": 3}))
    >>> found.texts, found.usage
    (['a', 'b'], {'completion_tokens': 3})
    """

    id: Any  # the id in the input, or the index if it has none
    index: int  # its place in the input
    error: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of the input
    reference_samples: Sequence[Sample] | None = None  # those of separate references
    _samples: Sequence[Sample] | None = None

    def __repr__(self) -> str:
        found = (f"error={self.error!r}" if self._samples is None
                 else f"samples={sum(sample.count for sample in self._samples)}")
        return f"SampledPrompt(id={self.id!r}, index={self.index}, {found})"

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples; equal ones may be one sample with a count."""
        if self._samples is None:
            raise InputError(self.error)
        return self._samples

    @property
    def segment(self) -> Segment:
        """The samples as hypotheses, and as references unless these were sampled separately."""
        return segment_of(self.samples, source_of(dict(self.fields)), AUTO, self.index,
                          self.reference_samples)

    @property
    def texts(self) -> list[str]:
        return [sample.text for sample in self.samples]

    @property
    def usage(self) -> dict[str, int] | None:
        """Tokens of the prompt and of all samples, references included, if they are known."""
        return _usage(self._samples, self.reference_samples)

    @classmethod
    def of(cls, record: Record) -> SampledPrompt:
        return cls(record.id, record.index, _error(record), record.fields,
                   record.reference_samples, record.samples)

    def as_record(self) -> dict[str, Any]:
        """The fields of the JSON line that the command writes, which every call reads."""
        return {**self.fields, "id": self.id,
                **sample_columns(self.samples, self.reference_samples)}


@dataclass(frozen=True)
class RunSummary:
    """A summary of the output of a call.

    >>> RunSummary("best.jsonl", segments=3, failed=1, seconds=0.1).failed
    1
    """

    output: str
    segments: int  # in the output, those of an earlier run that was resumed included
    failed: int  # segments among them without a result
    seconds: float  # duration of this run
    counts: Mapping[str, int] = field(default_factory=dict)  # pairs, samples, tokens, ...
    signatures: Sequence[str] = ()
    unfinished: Sequence[str] = ()  # the reasons why inputs could not be read to their end


def _usage(*parts: Sequence[Sample] | None) -> dict[str, int] | None:
    found = [samples for samples in parts if samples is not None]
    return usage_of(*found) if found else None


def _error(record: Record) -> str | None:
    return None if record.error is None else record.message
