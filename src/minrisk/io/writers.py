"""Writers render records as rows of the output: choices, samples or training data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import finite_or_none
from minrisk._core.errors import InputError, Wording
from minrisk._core.sampler import (
    Message,
    Prompt,
    Sample,
    Samples,
    columns,
    number_drawn,
)
from minrisk._core.segment import Confidence, Proposal, Ranking, Segment, Uncertainty
from minrisk._core.texts import fill
from minrisk._core.token_confidence import CONFIDENCES
from minrisk.io.formats import JSON_LINES, OutputFormat, Row
from minrisk.io.prompts import checked_messages
from minrisk.io.records import Record

PairChoice = Literal["best-worst", "best-middle-worst", "consecutive"]  # Yang et al. 2023
NO_FIELDS: Row = MappingProxyType({})
_SAMPLE_COLUMNS = {"counts": "count", "logprobs": "logprob"}  # name in JSON lines: in rows
# of a confidence
FURTHER_SIGNALS = ("gain", "logprob", "cocoa", "disagreement", *CONFIDENCES, "calibrated")
_CONFIDENCE = ("confidence.margin", "confidence.probability", "confidence.share")
_UNCERTAINTY = ("uncertainty.entropy", "uncertainty.largest", "uncertainty.utility",
                "uncertainty.clusters", "uncertainty.unanswered")
_PROPOSAL = ("proposal.kept", "proposal.utility", "proposal.best_utility", "proposal.reason")


class Writer(ABC):
    """Renders a finished record as its lines of the output."""

    @property
    def format(self) -> OutputFormat:
        return JSON_LINES

    @property
    def columns(self) -> Sequence[str]:
        """The columns of tabular formats."""
        return ()

    @abstractmethod
    def __call__(self, record: Record) -> str: ...

    def failed(self, record: Record) -> str:
        """The lines of a failed record; it keeps its line if the format has one line per record."""
        return self.format.render([failure_row(record)], self.columns)

    def counts(self, record: Record) -> Mapping[str, int]:
        """Counts of a record for the report."""
        return {}


@dataclass(frozen=True)
class ChoiceWriter(Writer):
    """Writes the best hypothesis of every segment, unless the samples disagree too much."""

    format: OutputFormat = JSON_LINES
    nbest: int | None = None
    utilities: bool = False
    abstain: float | None = None  # minimum share of the largest cluster, below which text is null
    samples: bool = False  # add all samples, including those that are not candidates
    confidence: bool = False  # rankings have a confidence: add its columns
    uncertainty: bool = False
    answers: bool = False  # the metric votes: add a column for the answer
    calibrated: bool = False  # confidences are calibrated: add a column for the probability
    proposals: bool = False  # the strategy proposes answers that are no samples: add columns

    @property
    def columns(self) -> list[str]:
        """The columns of tabular formats, with one row per hypothesis."""
        return ["id", *(["rank"] if self.nbest else []), "text", "index", "utility",
                *(["answer"] if self.answers else []), *(_CONFIDENCE if self.confidence else []),
                *(["confidence.calibrated"] if self.calibrated else []),
                *(_UNCERTAINTY if self.uncertainty else []),
                *(_PROPOSAL if self.proposals else []), "error"]

    def __call__(self, record: Record) -> str:
        assert record.segment is not None
        assert record.ranking is not None
        ranking = record.ranking.abstain_below(self.abstain)
        rows = (self._object if self.format.is_nested else self._rows)(record, ranking)
        return self.format.render(rows, self.columns, self.nbest or 1)

    def failed(self, record: Record) -> str:
        return self.format.render([failure_row(record)], self.columns, self.nbest or 1)

    def _object(self, record: Record, ranking: Ranking) -> list[Row]:
        assert record.segment is not None
        drawn: dict[str, Any] = {}
        if self.samples and record.samples is not None:
            drawn = {**columns(record.samples, references=record.reference_samples),
                     **numbers_drawn(record.samples, record.segment)}
        listed = drawn.get("samples", record.segment.hypotheses)
        computed = {"id": record.id,
                    **choice_fields(record.segment, ranking, listed),
                    **record.details, **self._details(record.segment, ranking, listed), **drawn}
        passed = {k: v for k, v in record.fields.items() if k not in computed}
        return [computed | passed]

    def _rows(self, record: Record, ranking: Ranking) -> list[Row]:
        """The choice with its details, and then the next best hypotheses.

        After a proposal, these begin with the best hypothesis.
        """
        segment = record.segment
        assert segment is not None
        best = {"id": record.id, "rank": 1, **choice_fields(segment, ranking, segment.hypotheses),
                **record.details, **_by_column(measures(ranking))}
        first = 0 if ranking.proposed else 1
        others = ([] if ranking.abstained
                  else ranking.order[first:first + (self.nbest or 1) - 1].tolist())
        return [best, *({"id": record.id, "rank": rank,
                         **_hypothesis(segment, ranking, row, segment.hypotheses)}
                        for rank, row in enumerate(others, 2))]

    def counts(self, record: Record) -> Mapping[str, int]:
        counts = {"pairs": record.ranking.pairs if record.ranking else 0}
        counts |= {f"judge_{name}": count
                   for name, count in record.details.get("judge_usage", {}).items()}
        return counts if record.samples is None else counts | count_samples(record)

    def _details(self, segment: Segment, ranking: Ranking,
                 listed: Sequence[str]) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.nbest:
            order = ranking.order[: self.nbest].tolist()
            details["nbest"] = [_hypothesis(segment, ranking, i, listed) for i in order]
        if self.utilities:
            details["utilities"] = [finite_or_none(u) for u in ranking.utility.tolist()]
            details["pairs"] = ranking.pairs
        return details | measures(ranking)


@dataclass(frozen=True)
class SampleWriter(Writer):
    """Writes the samples of every prompt, in a format that `minrisk decode` reads."""

    number: int  # samples per prompt
    format: OutputFormat = JSON_LINES
    repeat: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns of tabular formats, with one row per distinct text or per sample."""
        return ["id", "source", "text", *([] if self.repeat else ["count"]), "logprob", "error"]

    def __call__(self, record: Record) -> str:
        assert record.samples is not None
        if self.format.is_nested:
            fields = columns(record.samples, self.repeat, record.reference_samples)
            return self.format.render([{"id": record.id, **record.fields, **fields}])
        rows = [*self._rows(record)]
        if self.format.is_counted and len(rows) != self.number:
            raise InputError(Wording("found {rows} samples; plain text needs {size} lines for "
                                     "every prompt; give format='json'", rows=len(rows),
                                     size=self.number))
        return self.format.render(rows, self.columns, self.number)

    def failed(self, record: Record) -> str:
        fields = record.fields if self.format.is_nested else _source_of(record)
        return self.format.render([failure_row(record, fields)], self.columns, self.number)

    def _rows(self, record: Record) -> Iterator[Row]:
        found = columns(record.samples or (), self.repeat or self.format.is_counted)
        for row, text in enumerate(found["samples"]):
            yield {"id": record.id, **_source_of(record), "text": text} | {
                name: found[plural][row] for plural, name in _SAMPLE_COLUMNS.items()
                if plural in found}

    def counts(self, record: Record) -> Mapping[str, int]:
        return count_samples(record)


def _source_of(record: Record) -> Row:
    return {"source": record.fields.get("source")}


def confidence_fields(found: Confidence) -> dict[str, Any]:
    fields: dict[str, Any] = {"margin": finite_or_none(found.margin),
                              "probability": finite_or_none(found.probability)}
    if found.share is not None:
        fields |= {"share": found.share, "interval": found.interval}
    fields |= {name: value for name in FURTHER_SIGNALS
               if (value := getattr(found, name)) is not None}
    return fields if found.reason is None else fields | {"reason": found.reason}


def uncertainty_fields(found: Uncertainty) -> dict[str, Any]:
    return {"entropy": found.entropy, "largest": found.largest,
            "utility": finite_or_none(found.utility), "clusters": found.clusters,
            "unanswered": found.unanswered}


def proposal_fields(found: Proposal, abstained: bool = False) -> dict[str, Any]:
    """What is known of an answer that is not a sample, with its text if it is not the answer."""
    fields: dict[str, Any] = {"kept": found.is_kept, "utility": finite_or_none(found.utility),
                              "best_utility": finite_or_none(found.best)}
    if found.shares:
        fields["shares"] = dict(found.shares)
    if found.reason is None:
        return fields
    text = {} if found.text is None or abstained else {"text": found.text}
    return fields | {"reason": found.reason} | text


def count_samples(record: Record) -> dict[str, int]:
    """The numbers of samples and tokens, including those of separate references."""
    total = Counter(samples=0, tokens=0)
    for drawn in (record.samples or (), record.reference_samples or ()):
        usage = drawn.usage if isinstance(drawn, Samples) and drawn.usage else {}
        total.update({"samples": sum(s.count for s in drawn),
                      "tokens": sum(s.count * len(s.tokens) for s in drawn), **usage})
    return dict(total)


def failure_row(record: Record, fields: Row = NO_FIELDS) -> Row:
    """The row of a failed record, with the reason."""
    return {"id": record.id, **fields, "error": record.message}


def numbers_drawn(samples: Sequence[Sample], segment: Segment) -> dict[str, int]:
    """How many samples were drawn, and how many of these are not candidates."""
    drawn = number_drawn(samples)
    return {"drawn": drawn, "dropped": drawn - int(segment.counts.sum())}


def choice_fields(segment: Segment, ranking: Ranking, listed: Sequence[str]) -> dict[str, Any]:
    """The choice, with its index among the texts that the output or the input lists."""
    proposed = ranking.proposed
    best = (_hypothesis(segment, ranking, ranking.best, listed) if proposed is None else
            {"text": proposed.text, "index": None, "utility": finite_or_none(proposed.utility)})
    return best | {"text": None, "abstained": True} if ranking.abstained else best


def _hypothesis(segment: Segment, ranking: Ranking, row: int,
                listed: Sequence[str]) -> dict[str, Any]:
    text, utility = segment.hypotheses[row], finite_or_none(float(ranking.utility[row]))
    if listed is not segment.hypotheses:
        index = listed.index(text)
    else:
        index = row if segment.rows is None else int(segment.rows[row])
    return {"text": text, "index": index, "utility": utility}


def measures(found: Ranking) -> dict[str, dict[str, Any]]:
    """What was proposed, and the confidence and the uncertainty of a choice, where known."""
    fields = {}
    if found.proposal is not None:
        fields["proposal"] = proposal_fields(found.proposal, found.abstained)
    if found.confidence is not None:
        fields["confidence"] = confidence_fields(found.confidence)
    if found.uncertainty is not None:
        fields["uncertainty"] = uncertainty_fields(found.uncertainty)
    return fields


def _by_column(fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{part}.{name}": value for part, values in fields.items()
            for name, value in values.items()}


@dataclass(frozen=True)
class RankedText:
    """A hypothesis with its utility."""

    text: str
    utility: float


@dataclass(frozen=True)
class TrainingRecipe:
    """The format of training examples, and which pairs are chosen."""

    pairs: PairChoice | None = None  # None: only the best text
    stride: int = 1  # distance in rank within a consecutive pair
    prompt: str | None = None  # template of the prompt; default: the prompt of the segment
    conversational: bool = False  # examples are chats of messages

    @property
    def columns(self) -> list[str]:
        """The fields of an example that is not a chat."""
        return ["source", "target"] if self.pairs is None else ["prompt", "chosen", "rejected"]

    def examples(self, segment: Segment, ranking: Ranking,
                 fields: Row = NO_FIELDS) -> Iterator[dict[str, Any]]:
        """The examples of a segment; `fields` may have its prompt or messages."""
        ranked, prompt = _ranked(segment, ranking), self.prompt_for(segment.source, fields)
        if self.pairs is None:
            yield self._best(prompt, ranked[0].text)
        else:
            for better, worse in self._chosen(ranked):
                if better.utility > worse.utility:  # no preference between equal utilities
                    yield self._preference(prompt, better.text, worse.text)

    def prompt_for(self, source: str | None, fields: Mapping[str, Any]) -> Prompt:
        """The prompt of an example: the segment's prompt or messages, or else its source."""
        if self.prompt is not None:
            if source is None:
                raise InputError(Wording("found no source for the prompt template; leave out "
                                         "prompt=, or give a source for every segment"))
            return fill(self.prompt, source)
        has_prompt = self.pairs is not None or self.conversational  # not just the source
        if source is not None and not has_prompt:
            return source
        if fields.get("messages") is not None:
            return self._messages(fields["messages"])
        if isinstance(fields.get("prompt"), str):
            return str(fields["prompt"])
        if source is None:
            raise InputError("found no source, prompt or messages; every segment needs one of "
                             "them")
        return source

    def _messages(self, found: Any) -> Prompt:
        if not self.conversational:
            raise InputError(Wording("found messages, which need conversational=True"))
        return checked_messages(found)

    def _best(self, prompt: Prompt, target: str) -> dict[str, Any]:
        if not self.conversational:
            return {"source": prompt, "target": target}
        return {"messages": [*_user_messages(prompt), *_assistant_messages(target)]}

    def _preference(self, prompt: Prompt, better: str, worse: str) -> dict[str, Any]:
        """A preference pair in the format of TRL's DPO trainer."""
        if not self.conversational:
            return {"prompt": prompt, "chosen": better, "rejected": worse}
        return {"prompt": _user_messages(prompt), "chosen": _assistant_messages(better),
                "rejected": _assistant_messages(worse)}

    def _chosen(self, ranked: list[RankedText]) -> Iterator[tuple[RankedText, RankedText]]:
        best, middle, worst = ranked[0], ranked[len(ranked) // 2], ranked[-1]
        if self.pairs == "best-worst":
            yield best, worst
        elif self.pairs == "best-middle-worst":
            yield from ((best, middle), (middle, worst))
        else:
            yield from pairwise(ranked[:: self.stride])


@dataclass(frozen=True)
class TrainingWriter(Writer):
    """Writes the training examples of a segment; none if all utilities are equal."""

    recipe: TrainingRecipe
    format: OutputFormat = JSON_LINES

    @property
    def columns(self) -> list[str]:
        return self.recipe.columns

    def __call__(self, record: Record) -> str:
        return self.format.render(self._examples(record), self.columns)

    def failed(self, record: Record) -> str:
        """A failed segment has no examples."""
        return ""

    def counts(self, record: Record) -> Mapping[str, int]:
        assert record.ranking is not None
        empty = next(self._examples(record), None) is None
        return {"pairs": record.ranking.pairs, "without_pairs": int(empty)}

    def check(self, record: Record) -> None:
        """Raise an InputError if a segment has no source, prompt or messages."""
        assert record.segment is not None
        self.recipe.prompt_for(record.segment.source, record.fields)

    def _examples(self, record: Record) -> Iterator[Row]:
        assert record.segment is not None
        assert record.ranking is not None
        return self.recipe.examples(record.segment, record.ranking, record.fields)


def _ranked(segment: Segment, ranking: Ranking) -> list[RankedText]:
    """The answer, and the distinct hypotheses that have a utility, best first."""
    by_text: dict[str, RankedText] = {}
    if (proposed := ranking.proposed) is not None and proposed.text is not None:
        by_text[proposed.text] = RankedText(proposed.text, proposed.utility)
    for i in ranking.order[~np.isnan(ranking.utility[ranking.order])].tolist():
        text = segment.hypotheses[i]
        by_text.setdefault(text, RankedText(text, float(ranking.utility[i])))
    return list(by_text.values())


def _user_messages(prompt: Prompt) -> Sequence[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _assistant_messages(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
