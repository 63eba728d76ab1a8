"""The confidence of a ranking in its choice, for any strategy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints
from minrisk._core.options import option
from minrisk._core.pool import Pool
from minrisk._core.segment import TIE, Confidence, Ranking
from minrisk._core.strategy import (
    Strategy,
    compares_texts,
    resampled,
    segment_rng,
    stage_option,
)
from minrisk.strategies._wrapper import MeasuringStrategy

MAX_CONTENDERS = 20  # distinct choices that are compared; lower ranks hardly ever win


@dataclass(frozen=True)
class Confident(MeasuringStrategy):
    """Adds a confidence to the rankings of another strategy.

    The first 20 distinct choices of the ranking (texts, or answers if the metric extracts them) are
    scored against all references, and the references are resampled: the probability is the share
    of resamples in which exact MBR makes the same choice. So it covers the error of an approximate
    strategy and that of a finite sample of references. Costs 20 * m evaluations more. A strategy
    that compares no texts, as `rerank`, has a margin and no probability.

    Args:
        strategy: the strategy whose choice is judged.
        resamples: number of resamples of the references.
        seed: seed of the resamples.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> strategy = minrisk.Confident(minrisk.Standard("chrf"))
    >>> minrisk.decode(samples, strategy=strategy).confidence.probability > 0.5
    True
    """

    strategy: Strategy = stage_option(help="strategy whose choice is judged")
    resamples: int = option(1000, ge=1, help="number of resamples of the references")
    seed: int = option(0, ge=0, help="seed of the resamples")

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        choices = pool.choices()
        rows = _distinct_choices(ranking, choices)
        first, second = ranking.utility[rows[:2]] if rows.size > 1 else (np.nan, np.nan)
        has_answer = choices[ranking.best] >= 0
        # where no texts are compared, references decide nothing
        is_probable = has_answer and compares_texts(self.strategy)
        probability = self._probability(pool.keep(rows)) if is_probable else np.nan
        confidence = Confidence(float(first - second), probability)
        return replace(ranking, confidence=confidence, pairs=ranking.pairs + pool.tally.pairs)

    def _probability(self, contenders: Pool[Any]) -> float:
        """The share of resamples in which the first of them is the best, or ties with it."""
        rng = segment_rng(self.seed, contenders.segment)
        own = contenders.segment.self_columns if self.leave_self_out else None
        columns, copies = _equal_references(contenders, own)
        mass = resampled(contenders.segment.weights[columns], self.resamples, rng, copies)
        utility = _utility(contenders.scores(columns), mass,
                           None if own is None else np.searchsorted(columns, own))
        best = utility.max(axis=0)
        return float(np.mean(utility[0] >= best - TIE * np.abs(best)))


def _equal_references(pool: Pool[Any], own: Ints | None) -> tuple[Ints, Ints]:
    """One column for all references of the same text and weight, and the number of copies.

    References that are a hypothesis itself have columns of their own, so that they can be left out.
    """
    alone = np.zeros(len(pool.ref_rows), np.intp)
    alone[[] if own is None else own] = 1
    keys = np.stack([pool.ref_rows, pool.segment.weights, alone])
    _, first, copies = np.unique(keys, axis=1, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order], copies[order]


def _utility(scores: Floats, mass: npt.NDArray[np.float32], own: Ints | None) -> Floats:
    """(H, resamples) utilities; without the hypothesis itself, if its columns (`own`) are given."""
    if own is None:
        return scores @ mass.T
    itself = mass.T[own]  # (H, resamples)
    alone = scores[np.arange(own.size), own][:, None] * itself
    # a hypothesis whose only reference is itself has no utility
    others = np.where(itself < 1, 1 - itself, 1.0)
    result: Floats = (scores @ mass.T - alone) / others
    return result


def _distinct_choices(ranking: Ranking, choices: Ints) -> Ints:
    """The first hypotheses of the ranking that are different choices, by rank."""
    firsts = np.sort(np.unique(choices[ranking.order], return_index=True)[1])
    return ranking.order[firsts[:MAX_CONTENDERS]]
