"""The bundled trained metric: COMET's estimator on small sentence embeddings.

This module imports neither torch nor the encoder, so that the metric can always be listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.arrays import Points
from minrisk._core.groups import WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.comet import (
    AGGREGATION,
    Aggregation,
    EstimatorMetric,
    PairScorer,
)
from minrisk.metrics.embedding import Embedding


@dataclass(frozen=True)
class MQM(EstimatorMetric):
    """small bundled metric, trained on expert judgements; needs the source, and minrisk[embedding]

    COMET's estimator on multilingual sentence embeddings, trained by experiments/mqm on MQM
    annotations of WMT. It runs in NumPy, or by torch on a GPU.

    Args:
        model: file of weights written by experiments/mqm; None is the bundled one.
        aggregation: what is averaged over references: "expected" the outputs of the first layer,
            exactly; "mean" the embeddings.
        device: "numpy", or a device of torch; "auto" is "cuda" if there is a GPU, else "numpy".
        cache: folder of a cache of embeddings that runs and processes may share; None disables it.

    Raises:
        InputError: when it is used, if the file does not contain such weights.
        MissingExtra: when it is used, if the encoder's package is not installed.

    >>> import minrisk
    >>> mqm = minrisk.MQM(device="numpy")
    >>> mqm.needs_source, mqm.loads_model
    (True, True)
    >>> samples = ["The cat sleeps.", "The cat is sleeping.", "It rains."]
    >>> minrisk.decode(samples, metric=mqm, source="Le chat dort.").text
    'The cat sleeps.'
    """

    name: ClassVar[str] = "mqm"
    cost: ClassVar[str] = ("n + m runs of a small encoder, n · m of a small estimator, or n "
                           "with averaged references")
    loads_model: ClassVar[bool] = True
    features_per_segment: ClassVar[bool] = Embedding.features_per_segment

    model: str | None = option(None, help="file of weights from experiments/mqm; ours unless given")
    aggregation: Aggregation = option("expected", help=AGGREGATION)
    device: str = option("auto", help="numpy, or a device of torch; auto is cuda, else numpy")
    cache: str | None = option(None, help="folder of a cache of embeddings that runs share",
                               affects_results=False)

    def prepare(self) -> None:
        self._scorer  # noqa: B018 - which loads the model
        Embedding(cache=self.cache).prepare()

    def features(self, texts: Sequence[str]) -> WeightedRows:
        base = self._scorer.embeddings(Embedding(cache=self.cache).features(texts))
        return WeightedRows.plain(self, base)

    def vectors(self, features: WeightedRows) -> Points:
        """(N, D) sentence embeddings for clustering, on their device."""
        return self._scorer.vectors(features)

    @lazy
    def _scorer(self) -> PairScorer:
        from minrisk.metrics.neural.mqm.loading import load

        return load(self.model, self.device, self.aggregation == "expected")
