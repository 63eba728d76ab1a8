"""MetricX (Juraska et al. 2023, 2024): an mT5 that predicts an error from 0 to 25.

This module does not import torch, so that the metric can be listed where it is not installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording, needs_extra
from minrisk._core.groups import WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.neural import CrossEncoder, ReferenceFree

if TYPE_CHECKING:
    from minrisk.metrics.neural.metricx.scorer import MetricXScorer

_MODEL = "google/metricx-24-hybrid-large-v2p6"
_PUBLISHED_NAME = re.compile(r"metricx-(23|24)(-qe)?")  # names of published models


@dataclass(frozen=True)
class MetricX(CrossEncoder):
    """MetricX-24 and MetricX-23, an error from 0 to 25 (negated); needs minrisk[neural].

    MetricX (Juraska et al. 2023, 2024): an mT5 that reads source, hypothesis and reference
    together, so that references cannot be averaged. The error is negated, so that higher is better.

    Args:
        model: hub name or folder of the model.
        dtype: number format; "auto" is bf16 on CUDA and fp32 elsewhere.
        device: torch device, such as "cuda", "mps" or "cpu"; "auto" is a GPU if there is one.
        tokens: maximum number of tokens per batch [default: depends on the device].
        tokenizer: hub name or folder of mT5's tokenizer.
        version: input format, "24" (with the source) or "23" (without it).

    Raises:
        InputError: if the name of a published model contradicts the version, or, when it is used,
            if the model is not MetricX.
        MissingExtra: when it is used, if torch or transformers is not installed.

    >>> import minrisk
    >>> minrisk.MetricX().needs_source, minrisk.MetricX().is_error
    (True, True)
    >>> minrisk.MetricX("google/metricx-23-large-v2p0")
    Traceback (most recent call last):
    minrisk.InputError: google/metricx-23-large-v2p0: is MetricX-23 by its name, ...
    >>> samples = ["Le chat dort.", "Le chien dort."]
    >>> minrisk.decode(samples, metric="metricx", source="The cat is asleep.")  # doctest: +SKIP
    """

    name = "metricx"
    papers = ("Juraska et al. 2023", "Juraska et al. 2024")
    cost = "n · m runs of the model"
    is_error = True

    model: str = option(_MODEL)
    tokenizer: str = option("google/mt5-large")
    version: Literal["24", "23"] = option("24")

    def __post_init__(self) -> None:
        super().__post_init__()
        named = _PUBLISHED_NAME.search(self.model)
        if named and named[1] != self.version:
            raise InputError(Wording("{model}: by its name, this is MetricX-{named}, but version "
                                     "is {version!r}; set version={named!r}", model=self.model,
                                     named=named[1], version=self.version))
        own = "metricx-qe" if named and named[2] else "metricx"
        if named and self.version == "23" and own != self.name:  # models of version 24 do both
            raise InputError(f"{self.model}: by its name, this model was trained for another task; "
                             f"use it as the metric {own!r}")

    @property
    def needs_source(self) -> bool:
        return self.version == "24"

    @lazy
    def _scorer(self) -> MetricXScorer:
        with needs_extra("MetricX", "neural"):
            from minrisk.metrics.neural.metricx.scorer import MetricXScorer
        return MetricXScorer(self)


@dataclass(frozen=True)
class MetricXQE(ReferenceFree, MetricX):
    """MetricX by the source alone; every strategy then ranks by quality.

    MetricX (Juraska et al. 2023, 2024) without references: an estimate of the error of a
    hypothesis, given its source, from 0 to 25 and negated. Needs minrisk[neural].

    Args:
        model: hub name or folder of the model; for version "23" one of its QE models.
        dtype, device, tokens, tokenizer, version: as in `MetricX`.

    Raises:
        InputError: as `MetricX`.

    >>> import minrisk
    >>> quality = minrisk.MetricXQE("google/metricx-23-qe-large-v2p0", version="23")
    >>> strategy = minrisk.Rerank(quality)
    >>> minrisk.decode(["Le chat dort."], strategy=strategy,
    ...                source="The cat is asleep.")  # doctest: +SKIP
    """

    name = "metricx-qe"
    papers = ("Juraska et al. 2023", "Juraska et al. 2024")
    cost = "n runs of the model"

    model: str = option(_MODEL)

    def quality(self, hyps: WeightedRows, source: WeightedRows | None) -> Floats:
        (text,) = self._texts(self._checked(source))
        return self._scorer.quality(self._texts(hyps), text)
