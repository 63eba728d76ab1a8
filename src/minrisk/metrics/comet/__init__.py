"""COMET (Rei et al. 2020) without unbabel-comet: official checkpoints, exact for all pairs.

This module does not import torch, so that the metrics can be listed where it is not installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from minrisk._core.arrays import Floats, Ints, Points
from minrisk._core.errors import needs_extra
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.metric import PartialStatistics, Surrogate
from minrisk._core.options import option
from minrisk.metrics.neural import NeuralModel, ReferenceFree, SourceMetric

if TYPE_CHECKING:
    from torch import Tensor

    from minrisk.metrics.comet.embedder import Embedder
    from minrisk.metrics.comet.scorer import QualityScorer
    from minrisk.metrics.comet.unified_scorer import UnifiedScorer


CometDtype = Literal["auto", "fp32", "tf32", "bf16", "fp16", "int8"]
Aggregation = Literal["expected", "mean"]


class PairScorer(Protocol):
    """COMET's estimator on embeddings."""

    def embeddings(self, vectors: Floats) -> Any:
        """The vectors in the backend's format, as features store them."""

    def vectors(self, features: WeightedRows) -> Points:
        """(N, D) embeddings of texts and aggregates, on their device."""

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats: ...

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats: ...

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics: ...

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows) -> Floats: ...

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows) -> Surrogate[WeightedRows]: ...


class EstimatorMetric(SourceMetric, ABC):
    """A metric whose estimator scores pairs of embeddings, including averaged references."""

    needs_source = True

    @property
    @abstractmethod
    def _scorer(self) -> PairScorer: ...

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) scores of all pairs."""
        return self._scorer.scores(hyps, refs, self._checked(source, hyps, refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows | None = None) -> Floats:
        """(H,) `scores @ mass`, summed on the device."""
        return self._scorer.utility(hyps, refs, mass, self._checked(source, hyps, refs))

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        return self._scorer.partial_statistics(hyps, refs, weights)

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: WeightedRows | None = None) -> Floats:
        """(H,) scores against the average of the references that the statistics summarise."""
        return self._scorer.finalize(hyps, statistics, self._checked(source, hyps))

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows | None = None) -> Surrogate[WeightedRows]:
        """The estimator, linearised around the exact mean of its first layer's output."""
        return self._scorer.surrogate(hyps, refs, mass, self._checked(source, hyps, refs))


@dataclass(frozen=True)
class CometModel(NeuralModel):
    """Base class of COMET metrics: a checkpoint, its encoder, and how they run."""

    needs_source = True
    is_unified: ClassVar[bool]  # whether the model reads all texts as one sequence

    model: str = option("Unbabel/wmt22-comet-da")
    encoder: str | None = option(None)
    # one more than other models have
    dtype: CometDtype = option("auto")  # type: ignore[assignment]
    fast: bool = option(True)

    def prepare(self) -> None:
        self._embedder.encoder  # noqa: B018 - which loads the model

    @lazy
    def _embedder(self) -> Embedder:
        with needs_extra("COMET", "comet"):
            from minrisk.metrics.comet.embedder import Embedder
        return Embedder(self)


@dataclass(frozen=True)
class EmbeddingModel(CometModel):
    """Base class of COMET metrics on sentence embeddings."""

    is_unified = False

    cache: str | None = option(None, affects_results=False)

    @property
    def concurrent_batches(self) -> int:
        """Two on a GPU, so that it encodes one batch while the CPU tokenizes or ranks another."""
        on_gpu = self._embedder.runtime.device.type == "cuda"
        return 2 if on_gpu and self.cache is None else 1

    def prepare_thread(self) -> None:
        from minrisk._torch.device import use_own_stream

        use_own_stream(self._embedder.runtime.device)

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._embedder.embed(texts))

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        """Token ids of each text, truncated to the encoder's limit."""
        return self._embedder.tokenize(texts)

    def encode(self, ids: Sequence[Ints]) -> WeightedRows:
        """Features from token ids."""
        return WeightedRows.plain(self, self._embedder.encode(ids))

    def vectors(self, features: WeightedRows) -> Tensor:
        """(N, D) sentence embeddings for clustering, on their device."""
        from minrisk.metrics.comet.tensors import vectors

        return vectors(features)


@dataclass(frozen=True)
class Comet(EstimatorMetric, EmbeddingModel):
    """COMET, a trained metric on sentence embeddings; needs the source and minrisk[comet].

    COMET (Rei et al. 2020, 2022) from its official checkpoints, without the package unbabel-comet:
    each distinct text is encoded once, and references can be averaged (Vamvas and Sennrich 2024).
    Checkpoints are read without executing anything that is in them.

    Args:
        model: hub name, folder or .ckpt file of the model.
        dtype: number format; "auto" is fp16 on CUDA (bf16 if values overflow) and fp32 elsewhere.
            On CPUs that support them, "bf16" and "int8" (of the encoder) take about half of the
            time.
        device: torch device, such as "cuda", "mps" or "cpu"; "auto" is a GPU if there is one.
        tokens: maximum number of tokens per batch [default: depends on the device].
        encoder: hub name or folder of the encoder's configuration and tokenizer. None takes the
            folder `encoder` beside the checkpoint, or the name in it.
        fast: use packed batches and fused kernels where they can run.
        cache: folder of a cache of embeddings that runs and processes may share [default: no
            cache].
        aggregation: how references are averaged: the "expected" output of the first layer, exactly,
            or the "mean" embedding, as in the paper.
        memory: memory for scoring in GB [default: half of the free memory].

    Raises:
        InputError: when it is used, if the model cannot be read or is of another class.
        MissingExtra: when it is used, if torch or transformers is not installed.

    >>> import minrisk
    >>> comet = minrisk.Comet(aggregation="mean", dtype="fp32")
    >>> comet.model, comet.needs_source
    ('Unbabel/wmt22-comet-da', True)
    >>> samples = ["Le chat dort.", "Le chien dort."]
    >>> minrisk.decode(samples, metric=comet, source="The cat is asleep.")  # doctest: +SKIP
    """

    name = "comet"
    papers = ("Rei et al. 2020", "Rei et al. 2022a")
    cost = ("n + m runs of the encoder, n · m of a small estimator, or n with "
                           "averaged references")
    aggregation: Aggregation = option("expected")
    memory: float | None = option(None, gt=0)

    @lazy
    def _scorer(self) -> PairScorer:
        embedder = self._embedder
        from minrisk.metrics.comet.checkpoint import REGRESSION
        from minrisk.metrics.comet.scorer import TorchScorer

        return TorchScorer(embedder.network(REGRESSION), embedder.runtime,
                      self.aggregation == "expected", self.fast, self.memory)


@dataclass(frozen=True)
class CometQE(ReferenceFree, EmbeddingModel):
    """COMET that judges by the source alone; every strategy then ranks by quality.

    A reference-free COMET model (Rei et al. 2020) on sentence embeddings of source and hypothesis.
    Needs minrisk[comet].

    Args:
        model, dtype, device, tokens, encoder, fast, cache: as in `Comet`.

    Raises:
        InputError, MissingExtra: as `Comet`.

    >>> import minrisk
    >>> strategy = minrisk.QualityThenMBR("chrf", quality=minrisk.CometQE(), keep=2)
    >>> samples = ["Le chat dort.", "Le chien dort.", "Il dort."]
    >>> minrisk.decode(samples, strategy=strategy, source="The cat is asleep.")  # doctest: +SKIP
    """

    name = "comet-qe"
    papers = ("Rei et al. 2020",)
    cost = "n runs of the encoder"
    model: str = option("Unbabel/wmt20-comet-qe-da")

    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        return self._quality_scorer.quality(hyps, self._checked(source, hyps))

    @lazy
    def _quality_scorer(self) -> QualityScorer:
        embedder = self._embedder
        from minrisk.metrics.comet.scorer import QualityScorer

        return QualityScorer(embedder)


@dataclass(frozen=True)
class UnifiedMetric(CometModel):
    """Base class of metrics whose model reads all texts as one sequence (Rei et al. 2022b).

    Features are token ids, and the model is run for every input; references cannot be averaged.
    """

    is_unified = True

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._unified_scorer.tokenize(texts))

    @lazy
    def _unified_scorer(self) -> UnifiedScorer:
        embedder = self._embedder
        from minrisk.metrics.comet.unified_scorer import UnifiedScorer

        return UnifiedScorer(embedder, self.model)


@dataclass(frozen=True)
class CometKiwi(ReferenceFree, UnifiedMetric):
    """CometKiwi, which reads source and hypothesis; every strategy then ranks by quality.

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

    name = "comet-kiwi"
    papers = ("Rei et al. 2022b",)
    cost = "n runs of the model"
    model: str = option("Unbabel/wmt22-cometkiwi-da")

    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        source = self._checked(source, hyps)
        return self._unified_scorer.quality(hyps.listed(), source.listed()[0])


@dataclass(frozen=True)
class XComet(UnifiedMetric):
    """XCOMET and UniTE, which read source, hypothesis and reference together; pairs only.

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

    name = "xcomet"
    papers = ("Guerreiro et al. 2024", "Larionov et al. 2024", "Wan et al. 2022")
    cost = "n · m runs of the model"
    model: str = option("Unbabel/XCOMET-XL")

    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> Floats:
        """(H, R) the score of every pair."""
        source = self._checked(source, hyps, refs)
        return self._unified_scorer.scores(hyps.listed(), refs.listed(), source.listed()[0])
