"""BLEURT-20 (Sellam et al. 2020; Pu et al. 2021): a RemBERT that reads reference and hypothesis.

This module does not import torch, so that the metric can be listed where it is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minrisk._core.errors import needs_extra
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.neural import CrossEncoder

if TYPE_CHECKING:
    from minrisk.metrics.neural.bleurt.scorer import BleurtScorer


@dataclass(frozen=True)
class Bleurt(CrossEncoder):
    """BLEURT-20 and its distilled models, in PyTorch; pairs only; needs minrisk[neural].

    BLEURT-20 (Sellam et al. 2020; Pu et al. 2021), about 0 to 1: a RemBERT that reads reference and
    hypothesis together, so that references cannot be averaged.

    Args:
        model: hub name or folder of the model, such as "lucadiliello/BLEURT-20-D12".
        dtype: number format; "auto" is bf16 on CUDA and fp32 elsewhere.
        device: torch device, such as "cuda", "mps" or "cpu"; "auto" is a GPU if there is one.
        tokens: maximum number of tokens per batch [default: depends on the device].

    Raises:
        InputError: when it is used, if the model is not a BLEURT-20 model.
        MissingExtra: when it is used, if torch or transformers is not installed.

    >>> import minrisk
    >>> bleurt = minrisk.Bleurt("lucadiliello/BLEURT-20-D3", tokens=2048)
    >>> bleurt.model, bleurt.needs_source
    ('lucadiliello/BLEURT-20-D3', False)
    >>> minrisk.decode(["a cat", "the cat", "a dog"], metric=bleurt)  # doctest: +SKIP
    """

    name = "bleurt"
    papers = ("Sellam et al. 2020", "Pu et al. 2021")
    cost = "n · m runs of the model"

    model: str = option("lucadiliello/BLEURT-20")

    @lazy
    def _scorer(self) -> BleurtScorer:
        with needs_extra("BLEURT", "neural"):
            from minrisk.metrics.neural.bleurt.scorer import BleurtScorer
        return BleurtScorer(self)
