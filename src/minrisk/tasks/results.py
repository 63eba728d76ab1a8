"""Results of calls for whole corpora: one object per segment, or a summary of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from minrisk._core.errors import InputError
from minrisk._core.sampler import Sample, columns, distinct, usage_of
from minrisk._core.segment import Confidence, Proposal, Ranking, Segment, Uncertainty, shortened
from minrisk.io.records import Record, segment_of
from minrisk.io.segments import columns_of, source_of
from minrisk.io.weighting import AUTO
from minrisk.io.writers import choice_fields, numbers_drawn, proposal_fields


@dataclass(frozen=True, repr=False)
class DecodedSegment:
    """The result of one segment of a corpus.

    Its fields are those of a JSON line and the columns of a table of results. If the segment
    failed, `error` is the reason, there is no text, and `ranking` and `segment` raise the error.

    >>> import minrisk
    >>> good, bad = minrisk.decode_corpus([["a b", "c", "a b"], []])
    >>> good.text, good.index, good.ranking.utility.round(1).tolist()
    ('a b', 0, [66.7, 33.3, 66.7])
    >>> good
    DecodedSegment(id=0, position=0, text='a b')
    >>> bad.text, bad.error
    (None, 'segment 1: zero hypotheses; at least one is needed')
    """

    id: Any  # the id in the input, or the position if it has none
    position: int  # the segment's position in the input, from 0
    text: str | None = None  # the answer; None if it failed or abstained
    index: int | None = None  # its index among the samples, of which drawn ones are deduplicated
    # first; None if it is a proposal, which is not a sample
    utility: float | None = None  # its expected score
    answer: str | None = None  # the answer in the text, if the metric extracts answers
    error: str | None = None
    abstained: bool = False  # the choice is too uncertain for `abstain` or `max_error`
    confidence: Confidence | None = None
    uncertainty: Uncertainty | None = None
    proposal: Proposal | None = None  # an answer that is no sample, kept or not
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of the input
    details: Mapping[str, Any] = field(default_factory=dict)  # about the choice, by the metric
    samples: Sequence[Sample] | None = None  # drawn by `translate` or `answer`
    reference_samples: Sequence[Sample] | None = None  # those of separate references

    def __repr__(self) -> str:
        return f"DecodedSegment(id={self.id!r}, position={self.position}, {self._shown()})"

    def _shown(self) -> str:
        if self.error is not None:
            return f"error={self.error!r}"
        return "abstained=True" if self.text is None else f"text={shortened(self.text)}"

    @property
    def ranking(self) -> Ranking:
        """All hypotheses, best first."""
        return cast(Ranking, self._computed("ranking"))

    @property
    def segment(self) -> Segment:
        """The hypotheses and references."""
        return cast(Segment, self._computed("segment"))

    @property
    def usage(self) -> dict[str, int] | None:
        """Tokens of the samples, including those of separate references; None if unknown."""
        return _usage(self.samples, self.reference_samples)

    def _computed(self, name: str) -> object:
        """An attribute that is not a field, so that tables of results do not contain it."""
        found: object = vars(self).get(f"_{name}")
        if found is None:
            raise InputError(self.error)
        return found

    @classmethod
    def of(cls, record: Record, signature: str, abstain: float | None = None) -> DecodedSegment:
        made = cls(record.id, record.index, error=_error(record), fields=record.fields,
                   details=record.details, samples=record.samples,
                   reference_samples=record.reference_samples)
        segment, ranking = record.segment, record.ranking
        if segment is None or ranking is None:
            return made
        ranking = replace(ranking, hypotheses=segment.hypotheses,
                          signature=signature).abstain_below(abstain)
        choice = choice_fields(segment, ranking, _listed(segment, record.samples))
        made = replace(made, **choice, answer=record.details.get("answer"),
                       confidence=ranking.confidence, uncertainty=ranking.uncertainty,
                       proposal=ranking.proposal)
        vars(made).update(_ranking=ranking, _segment=segment)
        return made

    def as_record(self) -> dict[str, Any]:
        """The choice and the samples as fields of a JSON line, which every call can read."""
        index: int | None
        if self.samples is None:
            samples = columns_of(self.segment)
            index = None if self.ranking.proposed else self.ranking.best
        else:
            segment = vars(self).get("_segment")
            samples = {**columns(self.samples, references=self.reference_samples),
                       **({} if segment is None else numbers_drawn(self.samples, segment))}
            index = self.index
        choice: dict[str, Any] = {"text": self.text, "index": index, "utility": self.utility,
                  **({"abstained": True} if self.abstained else {})}
        if self.proposal is not None:
            choice["proposal"] = proposal_fields(self.proposal, self.abstained)
        return {**self.fields, "id": self.id, **choice, **self.details, **samples}


@dataclass(frozen=True, repr=False)
class SampledPrompt:
    """The samples of one prompt.

    If the prompt failed, `error` is the reason, there are no samples, and `texts` and `segment`
    raise the error.

    >>> from minrisk.plugins import Sample, Samples
    >>> found = SampledPrompt(0, 0, Samples([Sample("a", count=2), Sample("b")],
    ...                                     {"completion_tokens": 3}))
    >>> found.texts, found.usage
    (['a', 'b'], {'completion_tokens': 3})
    """

    id: Any  # the id in the input, or the position if it has none
    position: int  # the prompt's position in the input, from 0
    samples: Sequence[Sample] = ()  # equal ones may be merged into one with a count
    error: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of the input
    reference_samples: Sequence[Sample] | None = None  # those of separate references

    def __repr__(self) -> str:
        found = (f"error={self.error!r}" if self.error is not None
                 else f"samples={sum(sample.count for sample in self.samples)}")
        return f"SampledPrompt(id={self.id!r}, position={self.position}, {found})"

    @property
    def segment(self) -> Segment:
        """The samples as hypotheses; also as references, if none were sampled separately."""
        return segment_of(self._drawn, source_of(dict(self.fields)), AUTO, self.position,
                          self.reference_samples)

    @property
    def texts(self) -> list[str]:
        return [sample.text for sample in self._drawn]

    @property
    def usage(self) -> dict[str, int] | None:
        """Tokens of the prompt and all samples, including separate references; None if unknown."""
        return _usage(self.samples, self.reference_samples)

    @property
    def _drawn(self) -> Sequence[Sample]:
        if self.error is not None:
            raise InputError(self.error)
        return self.samples

    @classmethod
    def of(cls, record: Record) -> SampledPrompt:
        return cls(record.id, record.index, record.samples or (), _error(record), record.fields,
                   record.reference_samples)

    def as_record(self) -> dict[str, Any]:
        """The fields of the JSON line that the command writes, which every call can read."""
        return {**self.fields, "id": self.id,
                **columns(self._drawn, references=self.reference_samples)}


@dataclass(frozen=True)
class RunSummary:
    """A summary of the output of a call.

    >>> RunSummary("best.jsonl", segments=3, failed=1, seconds=0.1).failed
    1
    """

    output: str
    segments: int  # segments in the output, including those of the run that was resumed
    failed: int  # of these, segments without a result
    seconds: float  # duration of this run
    counts: Mapping[str, int] = field(default_factory=dict)  # pairs, samples, tokens, ...
    signatures: Sequence[str] = ()
    unfinished: Sequence[str] = ()  # errors that ended the reading of inputs


def _listed(segment: Segment, samples: Sequence[Sample] | None) -> Sequence[str]:
    """The texts that `index` refers to: all that were drawn, even if they are not candidates."""
    if samples is None:
        return segment.hypotheses
    return [sample.text for sample in distinct(samples)]


def _usage(*parts: Sequence[Sample] | None) -> dict[str, int] | None:
    found = [samples for samples in parts if samples is not None]
    return usage_of(*found) if found else None


def _error(record: Record) -> str | None:
    return None if record.error is None else record.message
