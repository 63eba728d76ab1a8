"""A trained metric that comes with the package: COMET's estimator on small sentence embeddings.

This file needs neither torch nor the encoder, so that the metric can always be listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from minrisk._core.arrays import Points
from minrisk._core.options import option
from minrisk._core.weighted_rows import WeightedRows
from minrisk.metrics.comet.estimator_metric import (
    AGGREGATION,
    Aggregation,
    EstimatorMetric,
    PairScorer,
)
from minrisk.metrics.embedding import Embedding


@dataclass(frozen=True)
class MQM(EstimatorMetric):
    """ours: trained on expert judgements, small; needs the source, and minrisk[embedding]"""

    name: ClassVar[str] = "mqm"
    loads_model: ClassVar[bool] = True
    features_per_segment: ClassVar[bool] = Embedding.features_per_segment

    model: str | None = option(None, help="a file of weights as experiments/mqm writes it; ours")
    aggregation: Aggregation = option("expected", help=AGGREGATION)
    device: str = option("auto", help="numpy, or cuda, mps or cpu by torch; cuda if it is there")
    cache: str | None = option(None, help="folder that keeps embeddings for other runs",
                               matters=False)

    def prepare(self) -> None:
        self._scorer  # noqa: B018 - which loads the model
        Embedding(cache=self.cache).prepare()

    def features(self, texts: Sequence[str]) -> WeightedRows:
        base = self._scorer.embeddings(Embedding(cache=self.cache).features(texts))
        return WeightedRows.plain(self, base, np.arange(len(texts)))

    def vectors(self, features: WeightedRows) -> Points:
        """(N, D) sentence embeddings where they are, for clustering."""
        return self._scorer.vectors(features)

    @cached_property
    def _scorer(self) -> PairScorer:
        from minrisk.metrics.mqm.loading import load

        return load(self.model, self.device, self.aggregation == "expected")
