"""What metrics with a neural network have in common.

This file needs no torch, so that such metrics can be listed where their extras are not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from minrisk.errors import InputError
from minrisk.options import check_choices, option
from minrisk.rows import WeightedRows

Dtype = Literal["auto", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True)
class NeuralModel:
    """A model, and how it runs."""

    name: ClassVar[str]

    model: str = option(help="a hub name or a folder")
    dtype: Dtype = option("auto", help="of the numbers; bf16 on CUDA, fp32 elsewhere")
    device: str = option("auto", help="cuda, mps or cpu; the best there is")
    tokens: int | None = option(None, help="tokens that are encoded at once; by the device")

    def __post_init__(self) -> None:
        check_choices(self)
        if self.tokens is not None and self.tokens < 1:
            raise InputError(f"{self.name}: {self.tokens} tokens at once; "
                             "a number from 1 on is wanted")

    def _checked(self, source: WeightedRows | None, *others: WeightedRows) -> WeightedRows:
        """The source, which must be there; it and the others must be this metric's own."""
        if source is None:
            raise InputError(f"metric {self.name!r} needs the source")
        for features in (source, *others):
            features.check(self)
        return source
