"""Pooling of hidden states to sentence embeddings, layer by layer as the encoder runs.

COMET mixes layers with learned weights and then pools over tokens. Mean and first-token pooling are
linear, so each layer is pooled as soon as it is computed, and none has to be kept.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor

Pooling = Literal["avg", "cls", "max"]


class PoolingAccumulator(Protocol):
    """Accumulates the pooled hidden states of layers."""

    def add(self, hidden: Tensor, weight: float) -> None: ...

    def result(self) -> Tensor: ...


class LinearPooling:
    """Mean over tokens, or the first token, applied to each layer."""

    def __init__(self, mask: Tensor, content: Tensor, first_only: bool, layer_norm: bool) -> None:
        self._mask = mask.float()[:, :, None]  # (B, T, 1)
        self._content = content.float()[:, :, None]
        self._first_only = first_only
        self._layer_norm = layer_norm
        self._sum: Tensor | float = 0.0

    def add(self, hidden: Tensor, weight: float) -> None:
        pooled = self._pool(hidden)
        if self._layer_norm:
            mean, deviation = statistics(hidden, self._mask)
            pooled = (pooled - mean[:, 0] * self._pooled_share()) / deviation[:, 0]
        self._sum = self._sum + weight * pooled

    def _pool(self, hidden: Tensor) -> Tensor:
        if self._first_only:
            return hidden[:, 0].float()
        return (hidden * self._content).sum(1) / self._mask.sum(1)

    def _pooled_share(self) -> Tensor | float:
        """The factor that pooling applies to a constant: the share of tokens that are content."""
        return 1.0 if self._first_only else self._content.sum(1) / self._mask.sum(1)

    def result(self) -> Tensor:
        assert isinstance(self._sum, Tensor)
        return self._sum


class MaxPooling:
    """The maximum over tokens, which must be taken after mixing the layers."""

    def __init__(self, mask: Tensor, content: Tensor, layer_norm: bool) -> None:
        self._mask = mask.float()[:, :, None]
        self._padding = ~content[:, :, None]
        self._layer_norm = layer_norm
        self._mixture: Tensor | float = 0.0

    def add(self, hidden: Tensor, weight: float) -> None:
        layer = hidden.float()
        if self._layer_norm:
            mean, deviation = statistics(hidden, self._mask)
            layer = (layer - mean) / deviation
        self._mixture = self._mixture + weight * layer

    def result(self) -> Tensor:
        assert isinstance(self._mixture, Tensor)
        return self._mixture.masked_fill(self._padding, -torch.inf).amax(1)


def statistics(hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 1, 1) mean and standard deviation over the tokens and dimensions of each sentence."""
    count = mask.sum((1, 2), keepdim=True) * hidden.shape[2]
    mean = (hidden * mask).sum((1, 2), keepdim=True) / count
    variance = (((hidden - mean) * mask) ** 2).sum((1, 2), keepdim=True) / count
    return mean, (variance + 1e-12).sqrt()


def accumulator(pool: Pooling, mask: Tensor, content: Tensor,
                layer_norm: bool) -> PoolingAccumulator:
    """The pooling of a batch; `mask` covers all tokens of a text, `content` only non-padding ones.

    They differ if a text contains the padding token. Like the official code, we then exclude it
    from sums but not from counts.
    """
    if pool == "max":
        return MaxPooling(mask, content, layer_norm)
    return LinearPooling(mask, content, pool == "cls", layer_norm)


def sparsemax(scores: Tensor) -> Tensor:
    """The sparsemax: the nearest distribution, with many exact zeros (Martins & Astudillo 2016)."""
    ordered = scores.sort(descending=True).values
    ranks = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    sums = ordered.cumsum(0)
    size = int((1 + ranks * ordered > sums).sum())
    return (scores - (sums[size - 1] - 1) / size).clamp(min=0)


def layer_weights(scalars: Tensor, transformation: str) -> list[float]:
    weights = sparsemax(scalars) if transformation == "sparsemax" else scalars.softmax(0)
    found: list[float] = weights.tolist()
    return found
