"""MetricX (Juraska et al. 2023, 2024): an mT5 that predicts an error from 0 to 25.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from minrisk.arrays import Floats
from minrisk.errors import MissingExtra
from minrisk.metrics.neural.cross_encoder import CrossEncoder
from minrisk.metrics.neural.reference_free import ReferenceFree
from minrisk.options import option
from minrisk.rows import WeightedRows

if TYPE_CHECKING:
    from minrisk.metrics.metricx.reader import Reader

_MODEL = "google/metricx-24-hybrid-large-v2p6"


@dataclass(frozen=True)
class MetricX(CrossEncoder):
    """MetricX-24 and MetricX-23, an error from 0 to 25 (negated): pairs only; minrisk[neural]"""

    name: ClassVar[str] = "metricx"
    is_error: ClassVar[bool] = True

    model: str = option(_MODEL, help="a hub name or a folder")
    tokenizer: str = option("google/mt5-large", help="where mT5's tokenizer is")
    version: Literal["24", "23"] = option("24", help="how texts are put together; 24 has a source")

    @property
    def needs_source(self) -> bool:
        return self.version == "24"

    @cached_property
    def _reader(self) -> Reader:
        try:
            from minrisk.metrics.metricx.reader import Reader
        except ImportError as error:
            raise MissingExtra(f"MetricX needs {error.name}: "
                               "pip install 'minrisk[neural]'") from None
        return Reader(self)


@dataclass(frozen=True)
class MetricXQE(ReferenceFree, MetricX):
    """MetricX-24 and MetricX-23-QE by the source alone; every strategy then ranks by quality"""

    name: ClassVar[str] = "metricx-qe"

    model: str = option(_MODEL, help="a hub name or a folder; for version 23, one of its QE models")

    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        (text,) = self._texts(self._checked(source))
        return self._reader.quality(self._texts(hyps), text)
