"""Shared functions of n-gram metrics: the native core indexes and scores texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.groups import WeightedRows, check_rows
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.process import threads
from minrisk.metrics._backend import backend


class NgramMetric(Metric[WeightedRows]):
    """Base class of metrics that the native core scores."""

    core: ClassVar[str]  # module of the core: "chrf" or "bleu"


def index_texts(metric: NgramMetric, texts: Sequence[str], *front_end: Any) -> WeightedRows:
    """A row per text; the options of the front end define the symbols (characters, words)."""
    return WeightedRows.plain(metric, backend(metric.core).Texts(list(texts), *front_end),
                              np.arange(len(texts)))


def lowercased(texts: Sequence[str], lowercase: bool) -> Sequence[str]:
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got a single string; put it into a list")
    return [text.lower() for text in texts] if lowercase else texts


def scores(metric: NgramMetric, hyps: WeightedRows, refs: WeightedRows, *options: Any) -> Floats:
    """(H, R) the score of every pair."""
    result: Floats = backend(metric.core).scores(*_arguments(metric, hyps, refs), *options,
                                                 threads())
    return result


def utility(metric: NgramMetric, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
            *options: Any) -> Floats:
    """(H,) `scores @ mass`, without storing the matrix."""
    result: Floats = backend(metric.core).utility(*_arguments(metric, hyps, refs), *options,
                                                  threads(), mass)
    return result


def partial_statistics(metric: NgramMetric, hyps: WeightedRows, refs: WeightedRows,
                       weights: Floats) -> PartialStatistics:
    """(E,) counts in the references of the hypotheses' n-grams, and total counts."""
    _check_features(metric, hyps, refs)
    result: PartialStatistics = backend(metric.core).partial_statistics(
        hyps.base, refs.base, refs.members, refs.spread(weights))
    return result


def finalize(metric: NgramMetric, hyps: WeightedRows, statistics: PartialStatistics,
             *options: Any) -> Floats:
    """(H,) scores against the average of the references that the statistics summarise."""
    _check_features(metric, hyps, hyps)
    result: Floats = backend(metric.core).finalize(hyps.base, hyps.members, statistics, *options)
    return result


def _check_features(metric: NgramMetric, hyps: WeightedRows, refs: WeightedRows) -> None:
    check_rows(metric, hyps, refs)
    if not hyps.is_plain:
        raise InputError(f"{metric.name} scores texts against references: "
                         "an aggregate cannot be the hypothesis")


def _arguments(metric: NgramMetric, hyps: WeightedRows, refs: WeightedRows) -> tuple[Any, ...]:
    _check_features(metric, hyps, refs)
    hyps, refs = _in_one_index(metric, hyps, refs)
    return refs.base, hyps.members, refs.offsets, refs.members, refs.weights


def _in_one_index(metric: NgramMetric, hyps: WeightedRows,
              refs: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
    """Both in one index, because separately extracted rows have different n-gram ids."""
    if hyps.base is refs.base:
        return hyps, refs
    joint = backend(metric.core).Texts.join(hyps.base, refs.base)
    return (replace(hyps, base=joint),
            replace(refs, base=joint, members=refs.members + len(hyps.base)))
