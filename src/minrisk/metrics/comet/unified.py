"""COMET models that read all texts as one sequence (Rei et al. 2022b; Guerreiro et al. 2024):
CometKiwi, UniTE and XCOMET. They cannot average references.

This module does not import torch, so that the metrics can be listed where it is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.groups import WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.comet import MODEL_HELP, CometModel
from minrisk.metrics.neural import ReferenceFree

if TYPE_CHECKING:
    from minrisk.metrics.comet.unified_scorer import UnifiedScorer


@dataclass(frozen=True)
class UnifiedMetric(CometModel):
    """Base class of unified metrics: features are token ids, and the model is run for every input.
    """

    is_unified: ClassVar[bool] = True

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._unified_scorer.tokenize(texts), np.arange(len(texts)))

    @lazy
    def _unified_scorer(self) -> UnifiedScorer:
        embedder = self._embedder
        from minrisk.metrics.comet.unified_scorer import UnifiedScorer

        return UnifiedScorer(embedder, self.model)


@dataclass(frozen=True)
class CometKiwi(ReferenceFree, UnifiedMetric):
    """a COMET model that reads source and hypothesis together; every strategy ranks by quality

    CometKiwi (Rei et al. 2022b) and other unified COMET models without references. Needs
    minrisk[comet].

    Args:
        model, dtype, device, tokens, encoder, fast: as in `Comet`.

    Raises:
        InputError, MissingExtra: as `Comet`.

    >>> import minrisk
    >>> kiwi = minrisk.CometKiwi(tokens=4096)
    >>> kiwi.model, kiwi.needs_source
    ('Unbabel/wmt22-cometkiwi-da', True)
    >>> samples = ["Le chat dort.", "Le chien dort."]
    >>> minrisk.decode(samples, strategy=minrisk.Rerank(kiwi),
    ...                source="The cat is asleep.")  # doctest: +SKIP
    """

    name: ClassVar[str] = "comet-kiwi"
    papers: ClassVar[tuple[str, ...]] = ("Rei et al. 2022b",)
    cost: ClassVar[str] = "n runs of the model"
    model: str = option("Unbabel/wmt22-cometkiwi-da", help=MODEL_HELP)

    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        source = self._checked(source, hyps)
        return self._unified_scorer.quality(_tokens(hyps), _tokens(source)[0])


@dataclass(frozen=True)
class XComet(UnifiedMetric):
    """XCOMET and UniTE, which read source, hypothesis and reference together: pairs only

    XCOMET (Guerreiro et al. 2024), XCOMET-lite (Larionov et al. 2024) and UniTE (Wan et al. 2022),
    0 to 1. The model reads each pair, so that references cannot be averaged. Needs minrisk[comet].

    Args:
        model, dtype, device, tokens, encoder, fast: as in `Comet`.

    Raises:
        InputError, MissingExtra: as `Comet`.

    >>> import minrisk
    >>> strategy = minrisk.CoarseToFine(minrisk.XComet(), coarse="chrf", keep=4)
    >>> samples = ["Le chat dort.", "Le chien dort."]
    >>> minrisk.decode(samples, strategy=strategy, source="The cat is asleep.")  # doctest: +SKIP
    """

    name: ClassVar[str] = "xcomet"
    papers: ClassVar[tuple[str, ...]] = ("Guerreiro et al. 2024",
                                         "Larionov et al. 2024",
                                         "Wan et al. 2022")
    cost: ClassVar[str] = "n · m runs of the model"
    model: str = option("Unbabel/XCOMET-XL", help=MODEL_HELP)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the score of every pair."""
        source = self._checked(source, hyps, refs)
        return self._unified_scorer.scores(_tokens(hyps), _tokens(refs), _tokens(source)[0])


def _tokens(features: WeightedRows) -> list[Ints]:
    return [features.base[row] for row in features.members]
