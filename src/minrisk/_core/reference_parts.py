"""One segment whose references come in shards, from several machines or more than memory holds.

What each shard says of the hypotheses adds up, for standard MBR as for averaged references:

    U(h) = finalize(sum over shards of statistics / sum over shards of weight)

Nothing else is kept of a shard, so memory does not grow with the number of references.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np

from minrisk._core.arrays import Floats, sums
from minrisk._core.errors import InputError
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric, PartialStatistics
from minrisk._core.pool import Pool, Tally, bind
from minrisk._core.references import References, Shard
from minrisk._core.segment import Ranking, Segment


@runtime_checkable
class TakesParts(Protocol):
    """A strategy for which references may come in parts."""

    @property
    def metric(self) -> AnyMetric: ...

    def partial_statistics(self, pool: Pool[Any], refs: Any, weights: Floats) -> PartialStatistics:
        """What some references say of the hypotheses; it adds up with what others do."""

    def finalize(self, pool: Pool[Any], statistics: PartialStatistics) -> Floats:
        """(H,) utilities, from references whose weights sum to 1."""


@dataclass(frozen=True, eq=False)
class Part:
    """What is left of some references."""

    statistics: PartialStatistics
    weight: float
    count: int  # of references
    pairs: int  # that were evaluated
    name: str
    weighted: bool

    def __add__(self, other: Part) -> Part:
        if self.weighted != other.weighted:
            without, having = (other, self) if self.weighted else (self, other)
            raise InputError(f"{without.name} has no weights, but {having.name} has; "
                             "give them to all references, or to none")
        with np.errstate(over="ignore"):  # `ranking` refuses weights that add up to infinity
            return replace(self, statistics=self.statistics + other.statistics,
                           weight=self.weight + other.weight, count=self.count + other.count,
                           pairs=self.pairs + other.pairs)


@dataclass(frozen=True, eq=False)
class Question:
    """Hypotheses and how they are judged: all that a worker must know."""

    strategy: TakesParts
    segment: Segment  # the references of which are still to come

    def part(self, shard: Shard) -> Part:
        """What a shard says."""
        parts = map(self._part, shard.blocks())
        with np.errstate(over="ignore", invalid="ignore"):  # as above
            first = next(parts, None)
            if first is None:
                raise InputError(f"{shard.name} has no references; at least one is wanted")
            return reduce(add, parts, first)

    def ranking(self, part: Part) -> Ranking:
        """What all shards say, once they are added up."""
        if not 0 < part.weight < np.inf:
            raise InputError(f"the weights of all references add up to {part.weight}; "
                             "a positive number is wanted")
        pool = self._fresh_pool()
        utility = self.strategy.finalize(pool, part.statistics / part.weight)
        return Ranking.of(utility, part.pairs + pool.tally.pairs)

    def _part(self, block: References) -> Part:
        texts = list(dict.fromkeys(block.texts))
        place = {text: row for row, text in enumerate(texts)}
        rows = np.array([place[text] for text in block.texts], np.intp)
        mass, pool = block.mass(), self._fresh_pool()
        statistics = self.strategy.partial_statistics(
            pool, self.strategy.metric.features(texts), sums(rows, mass, len(texts)))
        return Part(statistics, float(mass.sum()), rows.size, pool.tally.pairs, block.name,
                    block.weights is not None)

    def _fresh_pool(self) -> Pool[Any]:
        """With a tally of its own; the features of the hypotheses are extracted once."""
        return replace(self._pool, tally=Tally())

    @lazy
    def _pool(self) -> Pool[Any]:
        (pool,) = bind(self.strategy.metric, [self.segment])
        return pool
