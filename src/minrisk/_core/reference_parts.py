"""MBR for one segment whose references come in parts: from several machines, or larger than memory.

The partial statistics of the parts add up, both for standard MBR and for averaged references:

    U(h) = finalize(sum over parts of statistics / sum over parts of weight)

Only these sums are kept, so memory does not grow with the number of references.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np

from minrisk._core.arrays import Floats, numbered, sums
from minrisk._core.batch import bind
from minrisk._core.errors import InputError
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric, PartialStatistics
from minrisk._core.pool import Pool, Tally
from minrisk._core.segment import Ranking, ReferencePart, References, Segment
from minrisk._core.strategy import Strategy


@runtime_checkable
class PartsStrategy(Strategy, Protocol):
    """A strategy that can rank from partial statistics of the references."""

    @property
    def metric(self) -> AnyMetric: ...

    def partial_statistics(self, pool: Pool[Any], refs: Any, weights: Floats) -> PartialStatistics:
        """Statistics of a part of the references for these hypotheses; they add up over parts."""

    def finalize(self, pool: Pool[Any], statistics: PartialStatistics) -> Floats:
        """(H,) utilities, from the statistics of references whose weights sum to 1."""


@dataclass(frozen=True, eq=False)
class PartStatistics:
    """The partial statistics of a part of the references, and its size."""

    statistics: PartialStatistics
    weight: float
    count: int  # references
    pairs: int  # evaluated pairs
    name: str
    weighted: bool

    def __add__(self, other: PartStatistics) -> PartStatistics:
        if self.weighted != other.weighted:
            without, with_weights = (other, self) if self.weighted else (self, other)
            raise InputError(f"{without.name} has no weights, but {with_weights.name} has; "
                             "give them to all references, or to none")
        with np.errstate(over="ignore"):  # `ranking` rejects an infinite sum of weights
            return replace(self, statistics=self.statistics + other.statistics,
                           weight=self.weight + other.weight, count=self.count + other.count,
                           pairs=self.pairs + other.pairs)


@dataclass(frozen=True, eq=False)
class PartsDecoder:
    """The hypotheses and the strategy, with which a worker computes the statistics of a part."""

    strategy: PartsStrategy
    segment: Segment  # its references are not used

    def statistics(self, part: ReferencePart) -> PartStatistics:
        """The statistics of a part."""
        blocks = map(self._block_statistics, part.blocks())
        with np.errstate(over="ignore", invalid="ignore"):  # as above
            first = next(blocks, None)
            if first is None:
                raise InputError(f"{part.name} has no references; expected at least one")
            return reduce(add, blocks, first)

    def ranking(self, total: PartStatistics) -> Ranking:
        """The ranking from the sum of the statistics of all parts."""
        if not 0 < total.weight < np.inf:
            raise InputError("the weights of all references must add up to a positive number; "
                             f"got {total.weight}")
        pool = self._fresh_pool()
        utility = self.strategy.finalize(pool, total.statistics / total.weight)
        return Ranking.from_utility(utility, total.pairs + pool.tally.pairs)

    def _block_statistics(self, block: References) -> PartStatistics:
        texts: dict[str, int] = {}
        rows = numbered(block.texts, texts)
        mass, pool, metric = block.mass(), self._fresh_pool(), self.strategy.metric
        statistics = self.strategy.partial_statistics(
            pool, metric.as_given(metric.features(list(texts))), sums(rows, mass, len(texts)))
        return PartStatistics(statistics, float(mass.sum()), rows.size, pool.tally.pairs,
                              block.name, block.weights is not None)

    def _fresh_pool(self) -> Pool[Any]:
        """A pool with its own count of pairs; it shares the features of the hypotheses."""
        return replace(self._pool, tally=Tally())

    @lazy
    def _pool(self) -> Pool[Any]:
        (pool,) = bind(self.strategy.metric, [self.segment])
        return pool
