"""How many pairs a trial evaluated."""

from __future__ import annotations

from minrisk.segment import Ranking, Segment
from minrisk.validation.budgets import Trial


def pairs(trial: Trial, segment: Segment, ranking: Ranking) -> int:
    """Of the metric itself: those of a cheaper one that comes first do not count."""
    hypotheses, references = len(segment.hypotheses), len(segment.references)
    spent = int(trial.options(segment).get(trial.option or "", 1))
    return {
        "n-by-s": hypotheses * spent,
        "aggregate": hypotheses * spent,
        "aggregate-to-fine": hypotheses + spent * references,
        "coarse-to-fine": spent * references,
    }.get(trial.strategy, hypotheses * references)
