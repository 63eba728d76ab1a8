"""Probabilistic MBR: some scores are computed, the others estimated by low-rank matrix completion.

Trabelsi et al. 2024, Efficient Minimum Bayes Risk Decoding using Low-Rank Matrix Completion
Algorithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.strategy import Budget, MeanUtility, PoolStrategy, segment_rng
from minrisk.plugins import Pool, Ranking, option

_MAX_BLOCKS = 32  # blocks of hypotheses


@dataclass(frozen=True)
class LowRank(MeanUtility, PoolStrategy):
    """Scores some of the pairs, and estimates the others by matrix completion.

    Costs `budget` * n * m evaluations, and alternating least squares. Hypotheses are split into
    random blocks, each with its own references, so that the metric scores whole submatrices.

    Args:
        metric: the metric, its name or class, or a function.
        budget: share of all pairs to evaluate.
        factors: rank of the completed matrix.
        ridge: strength of regularization.
        iterations: number of iterations of alternating least squares.
        seed: seed of the choice of pairs and of the initial factors.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> minrisk.decode(samples, strategy=minrisk.LowRank("chrf", budget=1)).text
    'the cat sat'
    """

    name = "low-rank"
    papers = ("Trabelsi et al. 2024",)
    cost = "budget · n · m pairs, and a matrix completion"
    tried = Budget("budget", "pairs")
    budget: float = option(0.125, gt=0, le=1)
    factors: int = option(8, ge=1)
    ridge: float = option(5.0, gt=0)
    iterations: int = option(10, ge=0)
    seed: int = option(0, ge=0)

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        pool, inverse = pool.distinct_hypotheses()
        rng = segment_rng(self.seed, pool.segment)
        columns, mass = pool.distinct_references()
        rows = _random_blocks(len(pool.hyp_rows), rng)
        size = max(1, int(self.budget * columns.size))
        seen = _random_references(len(rows), columns.size, size, rng)
        scores = _scores(pool, rows, columns[seen])
        utility = np.empty(len(pool.hyp_rows))
        utility[rows[rows >= 0]] = self._utility(scores, mass, seen, rng)[rows >= 0]
        return pool.ranking(utility).repeat(inverse)

    def _utility(self, scores: Floats, mass: Floats, seen: Ints,
                 rng: np.random.Generator) -> Floats:
        """(K, h) utilities from the known scores, and the products of factors for the others."""
        mean, scale = np.nanmean(scores), np.nanstd(scores) or 1.0
        residual = np.nan_to_num((scores - mean) / scale)
        hyps, refs = self._factors(residual, seen, mass.size, rng)
        weighted = mass[:, None] * refs  # (R, F)
        unseen = weighted.sum(axis=0) - weighted[seen].sum(axis=1)  # (K, F)
        utility = residual @ mass[seen][..., None] + hyps @ unseen[..., None]
        result: Floats = mean + scale * utility[..., 0]
        return result

    def _factors(self, residual: Floats, seen: Ints, count: int,
                 rng: np.random.Generator) -> tuple[Floats, Floats]:
        """(K, h, F) factors of hypotheses and (R, F) of references, by alternating least squares.
        """
        refs: Floats = rng.standard_normal((count, self.factors))
        hyps = self._of_hyps(residual, refs[seen])
        for _ in range(self.iterations):
            refs = self._of_refs(residual, hyps, seen, count)
            hyps = self._of_hyps(residual, refs[seen])
        return hyps, refs

    def _of_hyps(self, residual: Floats, refs: Floats) -> Floats:
        turned = refs.swapaxes(1, 2)  # (K, F, s)
        solved = np.linalg.solve(turned @ refs + self._ridge, turned @ residual.swapaxes(1, 2))
        return np.asarray(solved.swapaxes(1, 2), np.float64)

    def _of_refs(self, residual: Floats, hyps: Floats, seen: Ints, count: int) -> Floats:
        turned = hyps.swapaxes(1, 2)  # (K, F, h)
        saw = np.zeros((count, len(seen)))
        saw[seen, np.arange(len(seen))[:, None]] = 1
        gram = np.tensordot(saw, turned @ hyps, axes=1) + self._ridge  # (R, F, F)
        wanted = np.zeros((count, self.factors))
        np.add.at(wanted, seen, (turned @ residual).swapaxes(1, 2))
        return np.asarray(np.linalg.solve(gram, wanted[..., None])[..., 0], np.float64)

    @property
    def _ridge(self) -> Floats:
        ridge: Floats = self.ridge * np.eye(self.factors)
        return ridge


def _random_blocks(count: int, rng: np.random.Generator) -> Ints:
    """(K, h) all hypotheses in blocks of nearly equal size, padded with -1."""
    blocks = min(_MAX_BLOCKS, count)
    rows = np.full(-(-count // blocks) * blocks, -1)
    rows[:count] = rng.permutation(count)
    return rows.reshape(-1, blocks).T


def _random_references(blocks: int, count: int, size: int, rng: np.random.Generator) -> Ints:
    """(K, s) the references of each block; all are used before one is used again."""
    subsets = count // size  # per permutation
    rounds = [rng.permutation(count)[: subsets * size].reshape(subsets, size)
              for _ in range(-(-blocks // subsets))]
    return np.concatenate(rounds)[:blocks]


def _scores(pool: Pool[Any], rows: Ints, columns: Ints) -> Floats:
    """(K, h, s) the known scores; NaN for the padding of a block."""
    scores = np.full((*rows.shape, columns.shape[1]), np.nan)
    for block, own in enumerate(rows):
        real = own >= 0
        scores[block, real] = pool.keep(own[real]).scores(columns[block])
    return scores
