"""JSON lines: one segment per line, with any number of samples.

    {"id"?, "source"?, "samples" | "hypotheses": [...], "counts"?: [...], "references"?: [...],
     "weights"? | "logprobs"?: [...], "lengths"?: [...], "outcomes"?: [...], ...}

A sample with a count of k stands for k equal samples. Weights, log-probabilities and lengths (in
tokens) belong to the references. These default to the samples; if there are separate ones, the
samples' own values are "sample_logprobs" and "sample_lengths". A weight applies to one sample, so a
count of k multiplies it by k; a log-probability belongs to a distinct text, whatever its count.
References may have both weights (their counts) and log-probabilities; the weighting selects one.
Outcomes are what each sample printed or returned when its user executed it, for metrics that
compare them. Other fields are copied to the output. Null fields are ignored, blank lines skipped.

A `ReferenceFile` has references of one segment: JSON lines, Parquet, or text with one per line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording, brief, warn
from minrisk._core.sampler import INCOMPLETE, REFERENCE_COLUMNS
from minrisk._core.segment import BLOCK, References, Segment
from minrisk._core.token_confidence import CONFIDENCES
from minrisk._core.weights import checked_logprobs, checked_numbers
from minrisk.io.files import Input, text_of
from minrisk.io.inputs import InputFile, peek_format
from minrisk.io.records import RawRecord, Record, checksum, error_location
from minrisk.io.remote import redact_url
from minrisk.io.weighting import AUTO, Weighting

# lists with one value per sample or reference
SAMPLE_FIELDS = frozenset({"samples", "hypotheses", "counts", "weights", "logprobs", "lengths",
                           "truncated_logprobs", "finish_reasons", "outcomes", "reasoning",
                           "models", *CONFIDENCES.values(),
                           *map("sample_{}".format, REFERENCE_COLUMNS)})
KNOWN_FIELDS = SAMPLE_FIELDS | {"id", "source", "references", "uncompared"}

# fields that `decode` writes about the choice in each segment
_CHOICE = frozenset({"text", "index", "utility"})
_OF_CHOICE = _CHOICE | {"abstained", "nbest", "utilities", "pairs", "confidence", "uncertainty",
                        "proposal", "votes", "judge_usage"}

UNUSED_LOGPROBS = Wording("logprobs are not used as weights: samples follow the probabilities of "
                          "the model already; use weights='logprobs' to weight by them")
OTHER_VOTES = ("the choices in the input were made by votes, and this run compares whole texts; "
               "for the same choices, use the same metric")


@dataclass
class Ids:
    """The ids of records; those without one get their position, with a warning if it may clash."""

    _given: set[bool] = field(default_factory=set)  # seen so far: True: number, False: no id

    def of(self, fields: dict[str, Any], index: int) -> str | int | float:
        value = fields.get("id")
        if isinstance(value, str):
            return value
        if len(self._given) < 2:
            self._given.add(value is not None)
            if len(self._given) == 2:
                warn("some segments have numbers as ids and some have none: those get their "
                     "position, which may be the id of another segment; give ids to all, or to "
                     "none")
        if value is None:
            return index
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(
                value) < math.inf:
            return value
        raise InputError(f"found id {show(value)}, expected a string or a finite number")


@dataclass(frozen=True)
class SampleReader:
    """A reader of JSON lines with samples, from several files."""

    files: tuple[InputFile, ...]
    weighting: Weighting = AUTO
    oracle: str | None = None  # the field with human references, which are weighted equally
    ids: Ids = field(default_factory=Ids, compare=False, repr=False)
    is_vote: bool = False  # samples that are not candidates count as votes for no answer

    def open(self) -> list[Input]:
        return [file.open() for file in self.files]

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        index = 0
        for source in inputs:
            for line in source:
                if line.strip():
                    yield RawRecord(index, source.name, source.number, line, checksum(line))
                    index += 1

    def shards(self) -> list[Self]:
        return [replace(self, files=(file,), ids=Ids()) for file in self.files]

    def parse(self, raw: RawRecord) -> Record:
        record = Record.of(raw)
        try:
            fields = parse(text_of(raw.content, raw.line), Wording("give num_candidates="))
        except InputError as error:
            return record.failed(error)
        return self.parse_fields(fields, record)

    def parse_fields(self, fields: dict[str, Any], record: Record) -> Record:
        """The record with the segment from the fields of a line."""
        theirs = {"models"} if models_of(fields) is None else set()
        parsed: dict[str, Any] = {"fields": {key: value
                                             for key, value in without_choice(fields).items()
                                             if key not in KNOWN_FIELDS - theirs}}
        if not self.is_vote and "votes" in fields and fields.keys() >= _CHOICE:
            warn(OTHER_VOTES)
        try:
            parsed["id"] = self.ids.of(fields, record.index)
            parsed["segment"] = self._candidates(fields, record.index)
        except InputError as error:
            return record.replace(**parsed).failed(error)
        return record.replace(**parsed)

    def _candidates(self, fields: dict[str, Any], index: int) -> Segment:
        """The segment of the samples that were candidates when the record was written."""
        rows = candidate_rows(fields) if fields.get("dropped") else None
        dissent = _number_uncompared(fields["uncompared"]) if "uncompared" in fields else 0
        if rows is None:
            segment = self._segment(fields, index)
        else:
            segment = self._segment(only_rows(fields, rows), index).among(np.array(rows))
            dissent += fields["dropped"]
        return _with_dissent(segment, dissent) if self.is_vote else segment

    def _segment(self, fields: dict[str, Any], index: int) -> Segment:
        hypotheses = _hypotheses(fields)
        outcomes = _outcomes(fields) if "outcomes" in fields else None
        if self.oracle is not None:
            return Segment(hypotheses, _oracle_references(fields, self.oracle), source_of(fields),
                           position=index, outcomes=outcomes)
        references, counts = _list(fields, "references"), _numbers(fields, "counts")
        weights = (self._weights(fields, hypotheses, counts) if references is None
                   else self._weights(fields, references))
        own = {} if self.weighting.by == "uniform" else fields
        of_samples = "" if references is None else "sample_"  # otherwise they are the references'
        return Segment(hypotheses, references, source_of(fields), weights, index, counts,
                       _numbers(own, f"{of_samples}logprobs"),
                       _numbers(own, f"{of_samples}lengths"), outcomes, models_of(fields),
                       {name: values for name in CONFIDENCES.values()
                        if (values := _numbers(own, f"{of_samples}{name}")) is not None})

    def _weights(self, fields: dict[str, Any], texts: list[Any],
                 counts: list[int] | None = None) -> Floats | list[Any] | None:
        if self.weighting.by == "uniform":
            return None
        weights, of_samples = _numbers(fields, "weights"), fields.get("references") is None
        # checked even if unused: a wrong length means misaligned samples
        of = "hypothesis" if of_samples else "reference"
        logprobs, lengths = (_aligned(fields, name, len(texts), of)
                             for name in ("logprobs", "lengths"))
        if logprobs is not None:
            checked_logprobs(logprobs, len(texts), of)
        models = models_of(fields) if of_samples else None
        if weights is not None and logprobs is not None and of_samples and models is None:
            raise InputError("found both weights and logprobs of the samples, expected one of "
                             "them")
        if self.weighting.by == "auto":
            # no warning with counts: such samples were drawn, so uniform weights are expected
            if logprobs is not None and weights is None and counts is None:
                warn(UNUSED_LOGPROBS)
            return weights
        column = self.weighting.column
        assert column is not None
        values = _aligned(fields, column, len(texts), of)
        if values is None:
            raise InputError(f"found no {column}, which the weights of the references need")
        return self.weighting.of_models(values, texts, lengths, counts, models, weights)


def without_choice(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that an earlier run wrote about its choice.

    Fields with such names in a record without a choice are the user's own.
    """
    if not fields.keys() >= _CHOICE:
        return fields
    dropped = _OF_CHOICE | {"answer"} if "votes" in fields else _OF_CHOICE
    return {name: value for name, value in fields.items() if name not in dropped}


def candidate_rows(fields: Mapping[str, Any]) -> list[int] | None:
    """The indices of the samples that `minrisk answer` compared, if its output says that some were
    dropped: the finished ones, or all. None for other records.
    """
    samples, counts = fields.get("samples"), fields.get("counts")
    drawn, dropped = fields.get("drawn"), fields.get("dropped")
    if not isinstance(samples, list) or not isinstance(counts, list) or not dropped or not all(
            type(number) is int for number in (drawn, dropped, *counts)):
        return None
    found = fields.get("finish_reasons")
    reasons = found if isinstance(found, list) else [None] * len(samples)
    every = range(len(reasons))
    rows = [row for row in every if reasons[row] not in INCOMPLETE] or [*every]
    is_answer = (len(samples) == len(counts) == len(reasons)
                 and sum(counts[row] for row in rows) + dropped == drawn)
    return rows if is_answer else None


def only_rows(fields: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """The fields with values for these samples only."""
    count = len(fields["samples"])
    of_references = {*REFERENCE_COLUMNS, "weights"} if fields.get("references") is not None else ()
    return {**fields, **{name: [fields[name][row] for row in rows]
                         for name in SAMPLE_FIELDS.difference(of_references)
                         if isinstance(fields.get(name), list) and len(fields[name]) == count}}


def _number_uncompared(uncompared: Any) -> int:
    """The number of samples that `serve` did not compare."""
    counts = uncompared.get("counts") if isinstance(uncompared, dict) else None
    return sum(count for count in counts if type(count) is int and count > 0) if isinstance(
        counts, list) else 0


def _with_dissent(segment: Segment, count: int) -> Segment:
    """The segment with `count` votes for no answer, represented by blank references."""
    columns = segment.self_columns
    if not count or columns is None or segment.outcomes is not None:
        return segment
    own, size = segment.weights[columns], len(segment.hypotheses)
    more = {name: None if values is None else [*values, values.mean()]
            for name, values in (("logprobs", segment.logprobs), ("lengths", segment.lengths))}
    models = None if segment.models is None else [
        *(segment.models[column] for column in columns.tolist()), None]
    larger = Segment([*segment.hypotheses, ""], None, segment.source, [*own, own.mean()],
                     segment.position, [*segment.counts, count], models=models, **more,
                     confidences={
                         name: [*values, values.mean()]
                         for name, values in segment.confidences.items()})
    found = larger.keep(np.arange(size))
    return found if segment.rows is None else found.among(segment.rows)


def parse(text: str, advice: str) -> dict[str, Any]:
    """The fields of a JSON line; `advice` is for errors, in case it is plain text."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Wording("found invalid JSON ({error}), expected one JSON object per "
                                 "line; if this is plain text, {advice}", error=error,
                                 advice=advice)) from None
    if not isinstance(fields, dict):
        raise InputError(f"found {show(fields)}, expected a JSON object")
    return fields


def output_texts(path: str) -> list[str]:
    """The output of a system, as plain text with one line per segment or as JSON lines of `decode`.

    Segments without a text, which failed or abstained, have an empty one.
    """
    source = InputFile.at(path).open()
    lines = list(source.texts())
    if not (source.has_fields or (lines and _is_result(lines[0]))):
        return lines
    return [_output_text(line, f"{source.name}:{number}") for number, line in enumerate(lines, 1)
            if line.strip()]


def _is_result(line: str) -> bool:
    """Whether a line is a result in JSON; plain text may start with a brace, too."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and not fields.keys().isdisjoint({"text", "error", "samples"})


def _output_text(line: str, where: str) -> str:
    with error_location(where):
        return text_of_choice(parse(line, "let its first line be no JSON object"))


def text_of_choice(fields: Mapping[str, Any]) -> str:
    """The text of a line of an output; empty for a segment that failed or abstained."""
    text = fields.get("text")
    if text is None and ("error" in fields or fields.get("abstained")):
        return ""
    if not isinstance(text, str):
        raise InputError(f"found text {show(text)}, expected a string, as `minrisk decode` writes "
                         "it")
    return text


def output_fields(file: InputFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """The position and the fields of each line of an output in JSON lines or Parquet."""
    source = file.open()
    for line in source:
        if line.strip():
            with error_location(source.where):
                yield source.where, parse(text_of(line, source.number),
                                          "give what `minrisk decode` wrote")


def source_of(fields: dict[str, Any]) -> str | None:
    source = fields.get("source")
    if source is not None and not isinstance(source, str):
        raise InputError(f"found source {show(source)}, expected a string")
    return source


def columns_of(segment: Segment) -> dict[str, Any]:
    """The fields of a JSON line for a segment."""
    fields: dict[str, Any] = {"samples": list(segment.hypotheses),
                              "counts": segment.counts.tolist()}
    of_samples = "" if segment.self_columns is not None else "sample_"
    if segment.source is not None:
        fields["source"] = segment.source
    if segment.self_columns is not None and segment.models is not None:
        fields["models"] = [segment.models[column] for column in segment.self_columns.tolist()]
    if segment.self_columns is None:
        fields |= {"references": list(segment.references), "weights": segment.weights.tolist()}
    elif np.ptp(segment.weights):
        return fields | {"weights": segment.weights[segment.self_columns].tolist()}
    for name, values in (("logprobs", segment.logprobs), ("lengths", segment.lengths),
                         *segment.confidences.items()):
        if values is not None:
            fields[f"{of_samples}{name}"] = values.tolist()
    if segment.outcomes is not None and segment.self_columns is not None:
        fields["outcomes"] = list(segment.outcomes.hypotheses)
    return fields


def _hypotheses(fields: dict[str, Any]) -> list[Any]:
    samples, hypotheses = _list(fields, "samples"), _list(fields, "hypotheses")
    if samples is not None and hypotheses is not None:
        raise InputError("found both samples and hypotheses, expected one of them")
    if samples is not None:
        return samples
    if hypotheses is None and fields.get("error") is not None:
        raise InputError(f"has no samples, because it failed before: {fields['error']}")
    if hypotheses is None:
        named = ", ".join(key for key, value in fields.items() if value is not None)
        raise InputError(f"found the fields {named or '(none)'}, expected samples or hypotheses: a "
                         "list of strings")
    return hypotheses


def references_of(fields: dict[str, Any]) -> tuple[list[Any], list[Any] | None, list[int] | None]:
    """The references of a line, or else its samples, with weights and counts."""
    references = _list(fields, "references")
    if references is not None:
        return references, _numbers(fields, "weights"), None
    return _hypotheses(fields), _numbers(fields, "weights"), _numbers(fields, "counts")


def _oracle_references(fields: dict[str, Any], name: str) -> list[Any]:
    references = fields.get(name)
    if references is None:
        raise InputError(f"found no {name}; expected a field of this name with the human "
                         "references")
    return [references] if isinstance(references, str) else _list(fields, name) or []


def _list(fields: dict[str, Any], name: str) -> list[Any] | None:
    values = fields.get(name)
    if values is not None and not isinstance(values, list):
        raise InputError(f"found {name} {show(values)}, expected a list")
    return values


def models_of(fields: Mapping[str, Any]) -> list[str | None] | None:
    """The model of each sample, in a record with samples of several models.

    A field of this name that is no such list is the user's own.
    """
    found, samples = fields.get("models"), fields.get("samples")
    is_list = isinstance(found, list) and isinstance(samples, list) and (
        len(found) == len(samples) and all(isinstance(name, str | None) for name in found))
    return found if is_list else None


def _numbers(fields: dict[str, Any], name: str) -> list[Any] | None:
    values = _list(fields, name)
    for value in values or ():
        # NumPy would convert booleans and numeric strings to numbers
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"found {show(value)} in {name}, expected numbers")
    return values


def _aligned(fields: dict[str, Any], name: str, count: int, of: str) -> list[Any] | None:
    """The numbers of a field, which needs one for each sample or reference."""
    numbers = _numbers(fields, name)
    if numbers is not None:
        checked_numbers(numbers, count, name, of)
    return numbers


def _outcomes(fields: dict[str, Any]) -> list[str | None] | None:
    """The outcomes as texts; other values become JSON."""
    values = _list(fields, "outcomes")
    if values is None:
        return None
    return [value if value is None or isinstance(value, str) else _written(value)
            for value in values]


def _written(outcome: Any) -> str:
    try:
        return json.dumps(outcome, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"found {brief(outcome)} in outcomes; expected JSON values") from None


def show(value: object) -> str:
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # nested nearly too deeply for the parser
        return "a value that is nested too deeply"
    except (TypeError, ValueError):  # a Python object that JSON cannot represent
        return brief(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


@dataclass(frozen=True)
class ReferenceFile:
    """A file with references of one segment; the worker that uses it reads it in blocks.

    The format is that of `minrisk rank`: plain text with one reference per line, JSON lines with
    "references" or "samples" (and "weights" or "counts"), or Parquet; it may be compressed.

    Args:
        path: path or URL of the file; "-" is standard input.
        given: the path to show in messages, if it differs.

    Raises:
        InputError: when the file is read, if it is unreadable or has another format.

    >>> import minrisk, tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("the cat sat down\\na cat sat\\n")
    ...     file.flush()
    ...     part = minrisk.ReferenceFile(file.name)
    ...     minrisk.decode_parts(["the cat sat", "a dog ran"], [part]).text
    'the cat sat'
    """

    path: str
    given: str | None = None

    @property
    def name(self) -> str:
        return redact_url(self.given or self.path)

    def blocks(self) -> Iterator[References]:
        source = InputFile(self.name, self.path).open()
        as_json, lines = peek_format(source)
        yield from (_from_json if as_json else _from_text)(source, lines)


def _from_text(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    while texts := [source.text(line) for line in islice(lines, BLOCK)]:
        yield References(texts, name=source.name)


def _from_json(source: Input, lines: Iterator[bytes]) -> Iterator[References]:
    """The references of all lines, so that outputs of `minrisk sample` can be used."""
    for line in filter(bytes.strip, lines):
        text = source.text(line)
        with error_location(source.where):
            found = references_of(parse(text, "name it .txt"))
        yield from References(*found, name=source.where).blocks()
