"""COMET (Rei et al. 2020) without unbabel-comet: official checkpoints, exact for all pairs.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from minrisk.arrays import Floats, Ints
from minrisk.errors import InputError, MissingExtra
from minrisk.groups import Groups
from minrisk.metric import Evidence
from minrisk.metrics.neural import NeuralModel
from minrisk.options import option
from minrisk.rows import WeightedRows

if TYPE_CHECKING:
    from minrisk.metrics.comet.embedder import Embedder
    from minrisk.metrics.comet.scorer import Judge, Scorer
    from minrisk.metrics.comet.surrogate import Linearised


@dataclass(frozen=True)
class CometModel(NeuralModel):
    """What all COMET models have in common."""

    needs_source: ClassVar[bool] = True
    reads_jointly: ClassVar[bool]  # source, hypothesis and reference as one text

    model: str = option("Unbabel/wmt22-comet-da", help="a hub name, a folder or a .ckpt file")
    encoder: str | None = option(None, help="where the encoder's configuration and tokenizer are")
    fast: bool = option(True, help="packed texts and fused kernels, where they can run")

    @cached_property
    def _embedder(self) -> Embedder:
        try:
            from minrisk.metrics.comet.embedder import Embedder
        except ImportError as error:
            raise MissingExtra(f"COMET needs {error.name}: pip install 'minrisk[comet]'") from None
        return Embedder(self)

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        if source is None:
            raise InputError("COMET needs the source")
        for features in (source, *others):
            features.check(self)
        return source


@dataclass(frozen=True)
class EmbeddingModel(CometModel):
    """A COMET model on sentence embeddings."""

    reads_jointly: ClassVar[bool] = False

    cache: str | None = option(None, help="folder that keeps embeddings for other runs")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return self._rows(self._embedder.embed(texts))

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        """Token ids of each text, cut to the encoder's longest."""
        return self._embedder.tokenize(texts)

    def encode(self, ids: Sequence[Ints]) -> WeightedRows:
        """Features from token ids."""
        return self._rows(self._embedder.encode(ids))

    def vectors(self, features: WeightedRows) -> Floats:
        """(N, D) sentence embeddings, for clustering."""
        from minrisk.metrics.comet.scorer import vectors

        return vectors(features)

    def _rows(self, embeddings: Any) -> WeightedRows:
        return WeightedRows.plain(self, embeddings, np.arange(len(embeddings)))


@dataclass(frozen=True)
class Comet(EmbeddingModel):
    """a trained metric on sentence embeddings; needs the source, and minrisk[comet]"""

    name: ClassVar[str] = "comet"
    aggregation: Literal["expected", "mean"] = option(
        "expected", help="average the first layer's features, or (the paper's) the embeddings")
    memory: float | None = option(None, help="gigabytes that scoring may take; half of the free")

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) COMET of every pair."""
        return self._scorer.scores(hyps, refs, self._checked(source, hyps, refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        """(H,) `scores @ mass`, added up on the device."""
        return self._scorer.utility(hyps, refs, mass, self._checked(source, hyps, refs))

    def evidence(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Evidence:
        return self._scorer.evidence(hyps, refs, weights)

    def verdict(self, hyps: WeightedRows, evidence: Evidence,
                source: WeightedRows | None = None) -> Floats:
        """(H,) COMET against the average that the evidence is of."""
        return self._scorer.verdict(hyps, evidence, self._checked(source, hyps))

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows | None = None) -> Linearised:
        """The estimator made linear from the exact mean of its first layer on."""
        scorer, checked = self._scorer, self._checked(source, hyps, refs)
        from minrisk.metrics.comet.surrogate import linearised

        return linearised(scorer, hyps, refs, mass, checked)

    @cached_property
    def _scorer(self) -> Scorer:
        embedder = self._embedder
        from minrisk.metrics.comet.scorer import Scorer

        return Scorer(embedder, self.fast, self.aggregation == "expected", self.memory)


@dataclass(frozen=True)
class ReferenceFree(CometModel, ABC):
    """Judges by the source alone: references do not matter, nor do averages of them."""

    @abstractmethod
    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        """(H,) what the model makes of each hypothesis."""

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the quality of each hypothesis, whatever the reference."""
        quality = self.quality(hyps, self._checked(source, hyps, refs))
        return np.tile(quality[:, None], len(refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        quality: Floats = self.quality(hyps, self._checked(source, hyps, refs)) * mass.sum()
        return quality

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def evidence(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Evidence:
        return np.zeros(0)  # whatever they say

    def verdict(self, hyps: WeightedRows, evidence: Evidence,
                source: WeightedRows | None = None) -> Floats:
        return self.quality(hyps, self._checked(source, hyps))


@dataclass(frozen=True)
class CometQE(ReferenceFree, EmbeddingModel):
    """a COMET model that judges by the source alone; every strategy then ranks by quality"""

    name: ClassVar[str] = "comet-qe"
    model: str = option("Unbabel/wmt20-comet-qe-da", help="a hub name, a folder or a .ckpt file")

    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        return self._judge.quality(hyps, self._checked(source, hyps))

    @cached_property
    def _judge(self) -> Judge:
        embedder = self._embedder
        from minrisk.metrics.comet.scorer import Judge

        return Judge(embedder)
