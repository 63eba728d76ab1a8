"""Samples as columns: the lists of texts, counts and log-probabilities that `decode` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from minrisk._core.arrays import finite_or_none
from minrisk._core.sampler import Sample, usage_of

REFERENCE_COLUMNS = ("logprobs", "lengths")  # belong to the references where there are some


def columns(samples: Iterable[Sample], repeat: bool = False) -> dict[str, Any]:
    """Columns of the distinct texts with their counts, or (`repeat`) of every single sample.

    Log-probabilities and lengths are included if every sample has one, finish reasons if one is
    not "stop", reasoning if a sample has some, and the usage of all samples if it is known.
    """
    rows = _repeated(samples) if repeat else distinct(samples)
    found: dict[str, Any] = {"samples": [row.text for row in rows]}
    if not repeat:
        found["counts"] = [row.count for row in rows]
    for name, values in (("logprobs", [finite_or_none(row.logprob) for row in rows]),
                         ("truncated_logprobs",
                          [finite_or_none(row.truncated_logprob) for row in rows]),
                         ("lengths", _lengths(rows))):
        if None not in values:
            found[name] = values
    if any(row.finish_reason not in (None, "stop") for row in rows):
        found["finish_reasons"] = [row.finish_reason for row in rows]
    if any(row.reasoning is not None for row in rows):
        found["reasoning"] = [row.reasoning for row in rows]
    return found | _usage(samples)


def sample_columns(samples: Iterable[Sample], references: Iterable[Sample] | None = None,
                   repeat: bool = False) -> dict[str, Any]:
    """Columns of samples, and of separate references if there are some."""
    return (columns(samples, repeat) if references is None
            else columns_with_references(samples, references, repeat))


def columns_with_references(samples: Iterable[Sample], references: Iterable[Sample],
                            repeat: bool = False) -> dict[str, Any]:
    """Columns of samples and of separate references, whose weights are their counts.

    Log-probabilities and lengths are those of the references; those of the samples are under
    names of their own.
    """
    found = {f"sample_{name}" if name in REFERENCE_COLUMNS else name: values
             for name, values in columns(samples, repeat).items() if name != "usage"}
    others = columns(references, repeat)
    found["references"] = others["samples"]
    if not repeat:
        found["weights"] = others["counts"]
    found |= {name: others[name] for name in REFERENCE_COLUMNS if name in others}
    return found | _usage(samples, references)


def _usage(*parts: Iterable[Sample]) -> dict[str, Any]:
    usage = usage_of(*parts)
    return {} if usage is None else {"usage": usage}


def distinct(samples: Iterable[Sample]) -> list[Sample]:
    """Equal texts merged into one sample, with the log-probabilities of the most probable one."""
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


def _lengths(rows: Sequence[Sample]) -> list[int | None]:
    """Lengths in tokens; a sample without tokens is empty if other samples have some."""
    by_tokens = any(row.tokens for row in rows)
    return [row.length if row.length is not None else len(row.tokens) if by_tokens else None
            for row in rows]
