"""What metrics of n-grams share: texts in an index of the core, scored by its functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.metric import AnyMetric, Evidence
from minrisk.metrics._core import core
from minrisk.rows import WeightedRows
from minrisk.threads import threads


def indexed(metric: AnyMetric, texts: Sequence[str], *front_end: Any) -> WeightedRows:
    """A row for each text; the front end's options say what its symbols are."""
    return WeightedRows.plain(metric, core(metric.name).Texts(list(texts), *front_end),
                              np.arange(len(texts)))


def lowered(texts: Sequence[str], lowercase: bool) -> Sequence[str]:
    if isinstance(texts, str):
        raise InputError("features are of a list of strings, not of one string")
    return [text.lower() for text in texts] if lowercase else texts


def scores(metric: AnyMetric, hyps: WeightedRows, refs: WeightedRows, *options: Any) -> Floats:
    """(H, R) the score of every pair."""
    result: Floats = core(metric.name).scores(*_arguments(metric, hyps, refs), *options, threads())
    return result


def utility(metric: AnyMetric, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
            *options: Any) -> Floats:
    """(H,) `scores @ mass`, without the matrix."""
    result: Floats = core(metric.name).utility(*_arguments(metric, hyps, refs), *options,
                                               threads(), mass)
    return result


def evidence(metric: AnyMetric, hyps: WeightedRows, refs: WeightedRows,
             weights: Floats) -> Evidence:
    """(E,) how often the n-grams of the hypotheses, and any, occur in the references."""
    _check(metric, hyps, refs)
    result: Evidence = core(metric.name).evidence(hyps.base, refs.base, refs.members,
                                                  refs.spread(weights))
    return result


def verdict(metric: AnyMetric, hyps: WeightedRows, evidence: Evidence, *options: Any) -> Floats:
    """(H,) scores against the average that the evidence is of."""
    _check(metric, hyps, hyps)
    result: Floats = core(metric.name).verdict(hyps.base, hyps.members, evidence, *options)
    return result


def _check(metric: AnyMetric, hyps: WeightedRows, refs: WeightedRows) -> None:
    hyps.check(metric)
    refs.check(metric)
    if not hyps.is_plain:
        raise InputError(f"{metric.name} scores texts against references; "
                         "an aggregate cannot be the hypothesis")


def _arguments(metric: AnyMetric, hyps: WeightedRows, refs: WeightedRows) -> tuple[Any, ...]:
    _check(metric, hyps, refs)
    hyps, refs = _together(metric, hyps, refs)
    return refs.base, hyps.members, refs.offsets, refs.members, refs.weights


def _together(metric: AnyMetric, hyps: WeightedRows,
              refs: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
    """Both in one index: rows that were extracted apart must agree on what an n-gram is."""
    if hyps.base is refs.base:
        return hyps, refs
    joint = core(metric.name).Texts.join(hyps.base, refs.base)
    return (replace(hyps, base=joint),
            replace(refs, base=joint, members=refs.members + len(hyps.base)))
