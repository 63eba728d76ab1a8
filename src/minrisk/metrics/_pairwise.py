"""Base of metrics that call user code: pairs of texts as arguments, checked numbers as results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.metric import Metric
from minrisk.metrics._base import Objects, objects


class PairwiseMetric(Metric[Objects]):
    """A metric whose pairs are scored by user code, which may be as heavy as a model.

    Its options say whether it takes the source, and whether lower is better.
    """

    loads_model: ClassVar[bool] = True

    source: bool
    error: bool

    @property
    def needs_source(self) -> bool:
        return self.source

    @property
    def is_error(self) -> bool:
        return self.error

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)


@dataclass(frozen=True)
class Pairs:
    """Every hypothesis with every reference, as two lists of equal length."""

    hypotheses: list[str]
    references: list[str]
    source: str | None = None

    @classmethod
    def of(cls, hyps: Objects, refs: Objects, source: Objects | None) -> Pairs:
        return cls([h for h in hyps for _ in refs], [r for _ in hyps for r in refs],
                   None if source is None else source[0])

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """The arguments of a call for each pair."""
        last = () if self.source is None else (self.source,)
        for hyp, ref in zip(self.hypotheses, self.references, strict=True):
            yield hyp, ref, *last


def as_scores(values: Sequence[Any], hyps: Objects, refs: Objects, name: str,
              error: bool) -> Floats:
    """(H, R) scores from the values that user code returned, negated if they are errors."""
    if len(values) != len(hyps) * len(refs):
        raise InputError(f"{name}: expected {len(hyps) * len(refs)} scores (one per pair, in "
                         f"order), got {len(values)}")
    found = np.array([finite_number(value, name) for value in values], dtype=np.float64)
    result: Floats = (-found if error else found).reshape(len(hyps), len(refs))
    return result


def finite_number(value: Any, name: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, str) or not math.isfinite(found):
        raise InputError(f"{name}: expected a finite number, got {value!r:.80}")
    return found
