"""Python objects as records: segments, dicts with the fields of JSON lines, and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.sampler import Sample, columns
from minrisk._core.segment import Segment
from minrisk.io.files import Input
from minrisk.io.prompts import PromptReader
from minrisk.io.records import RawRecord, Record, checksum
from minrisk.io.segments import SampleReader

_OF_SAMPLES = tuple(Sample.__dataclass_fields__)
_OF_RESULTS = {"samples", "reference_samples", "fields", "details"}  # lines have other fields


@dataclass(frozen=True)
class ObjectReader:
    """A reader of records from an iterable of objects."""

    objects: Iterable[Any]
    lines: SampleReader | PromptReader

    def open(self) -> list[Input]:
        return []

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        for index, given in enumerate(self.objects):
            content = _content(given)
            yield RawRecord(index, f"segment {index}", 0, content, _checksum(content))

    def shards(self) -> list[ObjectReader]:
        raise InputError("a folder as output needs files as input, a shard for each; for segments "
                         "in memory, name a file")

    def parse(self, raw: RawRecord) -> Record:
        record = Record.of(raw)
        try:
            if isinstance(raw.content, InputError):
                return record.failed(raw.content)
            if isinstance(raw.content, Segment) and isinstance(self.lines, SampleReader):
                return record.replace(segment=self._segment(raw.content, record.index))
            read = _prompt_fields if isinstance(self.lines, PromptReader) else _fields
            return self.lines.parse_fields(read(raw.content), record)
        except InputError as error:
            return record.failed(error)

    def _segment(self, segment: Segment, index: int) -> Segment:
        assert isinstance(self.lines, SampleReader)
        if self.lines.weighting.by != "auto" or self.lines.oracle is not None:
            raise InputError(Wording("weights= and oracle= are for dicts; a Segment has its "
                                     "weights and references already"))
        return segment.at(index)


def _content(given: Any) -> Any:
    """The content to parse; the result of an earlier call becomes the fields of its line."""
    if callable(getattr(given, "as_record", None)):
        try:
            return given.as_record()
        except InputError as error:  # the earlier call has failed for it
            return error
    return list(given) if isinstance(given, tuple) else _plain(given)


def _fields(content: Any) -> dict[str, Any]:
    if isinstance(content, Mapping):
        return _in_columns({str(key): _plain(value) for key, value in content.items()})
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        return _in_columns({"samples": list(content)})
    raise InputError(f"a segment must be a Segment, a dict or a list of samples; got "
                     f"{brief(content)}")


def _in_columns(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line; samples that are objects, as in a table of results, become columns."""
    samples, references = _samples(given.get("samples")), _samples(given.get("reference_samples"))
    if not samples:
        return given
    further = given.get("fields")
    own = {name: value for name, value in given.items() if name not in _OF_RESULTS}
    return {**(further if isinstance(further, Mapping) else {}), **own,
            **columns(samples, references=references or None)}


def _samples(found: Any) -> list[Sample]:
    """The samples in a list of `Sample` objects, or of dicts from a table of them; else none."""
    given = found if isinstance(found, list) else []
    if all(isinstance(one, Sample) for one in given):
        return given
    if not all(isinstance(one, Mapping) and isinstance(one.get("text"), str) for one in given):
        return []
    return [Sample(**_of_sample(one)) for one in given]


def _of_sample(one: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: one[name] for name in _OF_SAMPLES if one.get(name) is not None}
    return values | {"tokens": tuple(values.get("tokens", ()))}


def _prompt_fields(content: Any) -> dict[str, Any]:
    if isinstance(content, str):
        return {"source": content}
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return {"messages": [dict(m) if isinstance(m, Mapping) else m for m in content]}
    raise InputError("a prompt must be a string, a dict or a list of messages; got "
                     f"{brief(content)}")


def _plain(value: Any) -> Any:
    """The value as JSON represents it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _checksum(content: Any) -> int:
    """A checksum of the content, by which a resumed run detects changes."""
    if isinstance(content, Segment):
        arrays = (content.weights, content.counts, content.logprobs, content.lengths,
                  *content.confidences.values())
        outcomes = None if content.outcomes is None else content.outcomes.hypotheses
        texts = json.dumps([content.hypotheses, content.references, content.source, outcomes])
        return checksum(texts.encode(), *(b"" if array is None else array.tobytes()
                                          for array in arrays))
    try:
        return checksum(json.dumps(content, default=_plain_or_text).encode())
    except (ValueError, RecursionError, TypeError):  # parsing the record reports this error
        return checksum(brief(content).encode())


def _plain_or_text(value: Any) -> Any:
    return _plain(value) if isinstance(value, np.ndarray | np.generic) else str(value)


def rows_of(items: Any) -> Any:
    """The rows of a table as dicts, other objects unchanged; imports no table package.

    Missing values (NaN in pandas) become None.
    """
    if hasattr(items, "with_format"):  # Hugging Face datasets, which may be set to return tables
        return items.with_format(None)
    if hasattr(items, "to_batches"):  # Arrow
        return (row for batch in items.to_batches() for row in batch.to_pylist())
    if hasattr(items, "to_pylist"):  # an Arrow batch or column
        return items.to_pylist()
    if hasattr(items, "iter_rows"):  # polars
        return iter(items.iter_rows(named=True))
    if hasattr(items, "itertuples"):  # pandas
        return _pandas_rows(items)
    if hasattr(items, "to_list") and hasattr(items, "dtype"):  # a column
        return [value.tolist() if hasattr(value, "tolist") else value for value in items.to_list()]
    return items


def _pandas_rows(table: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in table.columns]
    for row in table.itertuples(index=False, name=None):
        yield {name: None if _is_missing(value) else value
               for name, value in zip(names, row, strict=True)}


def _is_missing(value: Any) -> bool:
    """Whether a value is NaN, or pandas' NA or NaT."""
    is_number = isinstance(value, float) or type(value).__name__ in ("NAType", "NaTType")
    return is_number and value is not None and (value != value) is not False
