"""A segment with what the output needs to know about where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.segment import Segment, weights_from_logprobs


@dataclass(frozen=True)
class Weighting:
    """How references count."""

    by: Literal["auto", "uniform", "logprobs", "length-normalised"] = "auto"
    temperature: float = 1.0  # of what comes from log-probabilities

    def __str__(self) -> str:
        return self.by if self.temperature == 1 else f"{self.by}/{self.temperature}"

    @property
    def by_logprobs(self) -> bool:
        return self.by in ("logprobs", "length-normalised")

    def of(self, logprobs: Sequence[float], texts: Sequence[str],
           lengths: Sequence[float] | None = None,
           counts: Sequence[int] | None = None) -> Floats:
        """Weights from log-probabilities; without lengths in tokens, those in characters."""
        if self.by != "length-normalised":
            lengths = None
        elif lengths is None:
            lengths = [max(1, len(text)) for text in texts]
        return weights_from_logprobs(logprobs, texts, counts, lengths=lengths,
                                     temperature=self.temperature)


AUTO = Weighting()


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
