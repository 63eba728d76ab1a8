"""Samples as the lists that `minrisk decode` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from minrisk.sampling.sample import Sample


def columns(samples: Iterable[Sample], repeat: bool = False) -> dict[str, list[Any]]:
    """Distinct texts with their counts, or each as often as it was drawn."""
    rows = _repeated(samples) if repeat else distinct(samples)
    found: dict[str, list[Any]] = {"samples": [row.text for row in rows]}
    if not repeat:
        found["counts"] = [row.count for row in rows]
    for name, values in (("logprobs", [row.logprob for row in rows]),
                         ("truncated_logprobs", [row.truncated_logprob for row in rows])):
        if None not in values:
            found[name] = values
    return found


def distinct(samples: Iterable[Sample]) -> list[Sample]:
    """Equal texts as one, with the log-probabilities of the likeliest way to write it."""
    rows: dict[str, Sample] = {}
    for sample in samples:
        known = rows.get(sample.text)
        rows[sample.text] = sample if known is None else _merged(known, sample)
    return list(rows.values())


def _merged(one: Sample, other: Sample) -> Sample:
    likelier = max(one, other, key=lambda s: float("-inf") if s.logprob is None else s.logprob)
    return replace(likelier, count=one.count + other.count)


def _repeated(samples: Iterable[Sample]) -> Sequence[Sample]:
    return [sample for sample in samples for _ in range(sample.count)]
