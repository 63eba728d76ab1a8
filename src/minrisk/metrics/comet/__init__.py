"""COMET (Rei et al. 2020) without unbabel-comet: official checkpoints, exact for all pairs.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from minrisk.arrays import Floats
from minrisk.errors import InputError, MissingExtra
from minrisk.groups import Groups
from minrisk.options import option
from minrisk.rows import WeightedRows

if TYPE_CHECKING:
    from minrisk.metrics.comet.scorer import Scorer
    from minrisk.metrics.comet.surrogate import Linearised


@dataclass(frozen=True)
class Comet:
    """a trained metric on sentence embeddings; needs the source, and minrisk[comet]"""

    name: ClassVar[str] = "comet"
    needs_source: ClassVar[bool] = True

    model: str = option("Unbabel/wmt22-comet-da", help="a hub name, a folder or a .ckpt file")
    encoder: str | None = option(None, help="where the encoder's configuration and tokenizer are")
    dtype: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", help="of the numbers; bf16 on CUDA, fp32 elsewhere")
    device: str = option("auto", help="cuda, mps or cpu; the best there is")
    aggregation: Literal["expected", "mean"] = option(
        "expected", help="average the first layer's features, or (the paper's) the embeddings")
    tokens: int = option(16384, help="tokens that are encoded at once, padding included")
    memory: float | None = option(None, help="gigabytes that scoring may take; half of the free")

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._scorer.embed(texts), np.arange(len(texts)))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) COMET of every pair."""
        return self._scorer.scores(hyps, refs, self._checked(hyps, refs, source))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        """(H,) `scores @ mass`, added up on the device."""
        return self._scorer.utility(hyps, refs, mass, self._checked(hyps, refs, source))

    def vectors(self, features: WeightedRows) -> Floats:
        """(N, D) sentence embeddings, for clustering."""
        return self._scorer.vectors(features)

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows | None = None) -> Linearised:
        """The estimator made linear from the exact mean of its first layer on."""
        from minrisk.metrics.comet.surrogate import linearised

        return linearised(self._scorer, hyps, refs, mass, self._checked(hyps, refs, source))

    @cached_property
    def _scorer(self) -> Scorer:
        try:
            from minrisk.metrics.comet.scorer import Scorer
        except ImportError as error:
            raise MissingExtra(f"the 'comet' metric needs {error.name}: "
                               "pip install 'minrisk[comet]'") from None
        return Scorer(self)

    def _checked(self, hyps: WeightedRows, refs: WeightedRows,
                 source: WeightedRows | None) -> WeightedRows:
        if source is None:
            raise InputError("COMET needs the source")
        for features in (hyps, refs, source):
            features.check(self)
        return source
