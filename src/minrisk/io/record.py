"""A segment with what the output needs to know about where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from minrisk.errors import InputError
from minrisk.segment import Segment

Weighting = Literal["auto", "uniform", "logprobs"]


@dataclass(frozen=True)
class Record:
    """What one record of the input says, or what is wrong with it."""

    id: Any
    where: str  # file:line
    segment: Segment | InputError
    extra: Mapping[str, Any] = field(default_factory=dict)  # fields that pass through


def with_source(record: Record) -> Record:
    """The same, or what is wrong with it if it has no source."""
    if isinstance(record.segment, InputError) or record.segment.source is not None:
        return record
    return replace(record, segment=InputError(f"{record.where}: found no source, wanted one for "
                                              "every segment"))


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors from inside say which part of the input they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
