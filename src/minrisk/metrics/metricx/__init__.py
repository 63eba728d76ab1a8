"""MetricX (Juraska et al. 2023, 2024): an mT5 that predicts an error from 0 to 25.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from minrisk.errors import MissingExtra
from minrisk.metrics.neural.cross_encoder import CrossEncoder
from minrisk.options import option

if TYPE_CHECKING:
    from minrisk.metrics.metricx.reader import Reader


@dataclass(frozen=True)
class MetricX(CrossEncoder):
    """MetricX-24 and MetricX-23, an error from 0 to 25 (negated): pairs only; minrisk[neural]"""

    name: ClassVar[str] = "metricx"
    is_error: ClassVar[bool] = True

    model: str = option("google/metricx-24-hybrid-large-v2p6", help="a hub name or a folder")
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
