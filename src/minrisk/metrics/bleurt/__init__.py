"""BLEURT-20 (Sellam et al. 2020; Pu et al. 2021): a RemBERT that reads reference and hypothesis.

This file needs no torch, so that the metric can be listed where its extra is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from minrisk._core.errors import needs_extra
from minrisk._core.options import option
from minrisk.metrics.neural.cross_encoder import CrossEncoder

if TYPE_CHECKING:
    from minrisk.metrics.bleurt.scorer import BleurtScorer


@dataclass(frozen=True)
class Bleurt(CrossEncoder):
    """BLEURT-20 and its distilled models, in their PyTorch format: pairs only; minrisk[neural]"""

    name: ClassVar[str] = "bleurt"

    model: str = option("lucadiliello/BLEURT-20", help="a hub name or a folder")

    @cached_property
    def _scorer(self) -> BleurtScorer:
        with needs_extra("BLEURT", "neural"):
            from minrisk.metrics.bleurt.scorer import BleurtScorer
        return BleurtScorer(self)
