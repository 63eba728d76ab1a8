"""The base class of n-gram metrics: the native core indexes and scores texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, WeightedRows, check_rows
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.native import backend
from minrisk._core.process import threads


class NgramMetric(Metric[WeightedRows]):
    """A metric that the native core scores; references are averaged by their n-gram counts."""

    core: ClassVar[str]  # module of the core: "chrf" or "bleu"
    cost = "n · m comparisons of n-gram counts; n + m with averaged references"
    features_per_segment = True  # a small index stays in the CPU cache

    @property
    @abstractmethod
    def _formula(self) -> tuple[Any, ...]:
        """The options of the core that turn counts into a score."""

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) the score of every pair."""
        result: Floats = backend(self.core).scores(*self._arguments(hyps, refs), *self._formula,
                                                   threads())
        return result

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`, without storing the matrix."""
        result: Floats = backend(self.core).utility(*self._arguments(hyps, refs), *self._formula,
                                                    threads(), mass)
        return result

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        """(E,) counts in the references of the hypotheses' n-grams, and total counts."""
        self._check(hyps, refs)
        result: PartialStatistics = backend(self.core).partial_statistics(
            hyps.base, refs.base, refs.members, refs.spread(weights))
        return result

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: object = None) -> Floats:
        """(H,) scores against the average of the references that the statistics summarise."""
        self._check(hyps, hyps)
        result: Floats = backend(self.core).finalize(hyps.base, hyps.members, statistics,
                                                     *self._formula)
        return result

    def _index(self, texts: Sequence[str], *front_end: Any) -> WeightedRows:
        """A row per text; the options of the front end define the symbols (characters, words)."""
        return WeightedRows.plain(self, backend(self.core).Texts(list(texts), *front_end))

    def _check(self, hyps: WeightedRows, refs: WeightedRows) -> None:
        check_rows(self, hyps, refs)
        hyps.check_texts()

    def _arguments(self, hyps: WeightedRows, refs: WeightedRows) -> tuple[Any, ...]:
        self._check(hyps, refs)
        hyps, refs = self._in_one_index(hyps, refs)
        return refs.base, hyps.members, refs.offsets, refs.members, refs.weights

    def _in_one_index(self, hyps: WeightedRows,
                      refs: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
        """Both in one index, because separately extracted rows have different n-gram ids."""
        if hyps.base is refs.base:
            return hyps, refs
        joint = backend(self.core).Texts.join(hyps.base, refs.base)
        return (replace(hyps, base=joint),
                replace(refs, base=joint, members=refs.members + len(hyps.base)))


def lowercased(texts: Sequence[str], lowercase: bool) -> Sequence[str]:
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got a single string; pass a list")
    return [text.lower() for text in texts] if lowercase else texts
