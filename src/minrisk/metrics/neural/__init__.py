"""The base class of metrics with a neural network.

This file needs no torch, so that such metrics can be listed where their extras are not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from minrisk._core.options import option
from minrisk.metrics._base import SourceMetric

Dtype = Literal["auto", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True)
class NeuralModel(SourceMetric):
    """A metric with a model: its name, number format, device and batch size."""

    loads_model: ClassVar[bool] = True

    model: str = option(help="hub name or folder of the model")
    dtype: Dtype = option("auto", help="number format; auto is bf16 on CUDA, fp32 elsewhere")
    device: str = option("auto", help="cuda, mps or cpu; auto is the best there is")
    tokens: int | None = option(None, ge=1, help="maximum number of tokens in a batch")

    def __getstate__(self) -> dict[str, Any]:
        """A model is sent as its options, and loaded where it arrives."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
