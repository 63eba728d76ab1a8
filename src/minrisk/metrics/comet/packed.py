"""The encoder without padding: the tokens of all texts in one row, attention within each text.

For encoders whose layers are BERT's, on CUDA and in half precision. It uses the weights of the
transformers model, and gives what running that model gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from minrisk._core.arrays import Ints
from minrisk._torch.device import triton_not_supported_reasons, upload

if TYPE_CHECKING:
    from minrisk.metrics.comet.encoder import CometEncoder

_POSITIONS_AFTER_PADDING = {"xlm-roberta": True, "bert": False}  # kinds with BERT's layers
_HALF = (torch.bfloat16, torch.float16)


def not_supported_reasons(encoder: CometEncoder) -> list[str]:
    """Reasons why this path cannot run; none if it can."""
    model: Any = encoder.model
    config, weight = model.config, next(model.parameters())
    reasons = triton_not_supported_reasons(weight.device)
    if weight.dtype not in _HALF:
        reasons.append(f"the numbers are {weight.dtype}, not of half precision")
    if config.model_type not in _POSITIONS_AFTER_PADDING:
        reasons.append(f"the layers are those of {config.model_type}, not BERT's")
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        reasons.append("positions are relative")
    if config.hidden_act != "gelu":
        reasons.append(f"the activation is {config.hidden_act}, not gelu")
    if encoder.pool == "max":
        reasons.append("the pooling is max")
    return reasons


@dataclass(frozen=True)
class PackedTexts:
    """A batch of texts, one after the other."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) of each token in its text
    starts: Tensor  # (B + 1,) of each text, and the end
    counts: Tensor  # (B, 1) tokens of each text
    longest: int

    @classmethod
    def of(cls, ids: Sequence[Ints], device: torch.device) -> PackedTexts:
        lengths = np.array([own.size for own in ids])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        return cls(_upload_int32(np.concatenate(ids), device), _upload_int32(positions, device),
                   _upload_int32(starts, device), _upload_int32(lengths[:, None], device),
                   int(lengths.max()))


def _upload_int32(numbers: Ints, device: torch.device) -> Tensor:
    return upload(numbers.astype(np.int32), device)


class PackedEncoder:
    """Runs the layers of an encoder on packed texts."""

    def __init__(self, encoder: CometEncoder) -> None:
        self._encoder = encoder
        model: Any = encoder.model
        self._layers = [PackedLayer(layer) for layer in model.encoder.layer]

    def embed(self, ids: Sequence[Ints]) -> Tensor:
        """(B, D) sentence embeddings."""
        encoder = self._encoder
        texts = PackedTexts.of(ids, next(encoder.model.parameters()).device)
        hidden = self._embeddings(texts)
        pooled = hidden.new_zeros(len(ids), hidden.shape[1], dtype=torch.float32)
        for place, layer in enumerate([None, *self._layers]):
            hidden = hidden if layer is None else layer(hidden, texts)
            if place in encoder.mix:
                pooled.add_(self._pool(hidden, texts), alpha=encoder.mix[place])
        return pooled

    def _embeddings(self, texts: PackedTexts) -> Tensor:
        """(T, D) token embeddings."""
        model: Any = self._encoder.model
        offset = 0
        if _POSITIONS_AFTER_PADDING[model.config.model_type]:
            offset = model.config.pad_token_id + 1
        tokens = texts.tokens[None]
        found: Tensor = model.embeddings(input_ids=tokens, token_type_ids=torch.zeros_like(tokens),
                                         position_ids=texts.positions[None] + offset)
        return found[0]

    def _pool(self, hidden: Tensor, texts: PackedTexts) -> Tensor:
        """(B, D) float32: one layer, pooled as `pooling.LinearPooling` does it."""
        from minrisk.metrics.comet.kernels import token_sums

        counts = texts.counts
        sums = token_sums(hidden, texts.starts)
        pooled = hidden[texts.starts[:-1]].float() if self._encoder.pool == "cls" else sums / counts
        if not self._encoder.layer_norm:
            return pooled
        size = counts * hidden.shape[1]
        mean = sums.sum(1, keepdim=True) / size
        squares = token_sums(hidden.float().square().sum(1, keepdim=True), texts.starts)
        return (pooled - mean) / (squares / size - mean**2 + 1e-12).sqrt()


class PackedLayer:
    """One layer of BERT, with its three projections as one product."""

    def __init__(self, layer: Any) -> None:
        attention = layer.attention.self
        parts = (attention.query, attention.key, attention.value)
        self._weight = torch.cat([part.weight for part in parts]).detach()
        self._bias = torch.cat([part.bias for part in parts]).detach()
        self._heads: int = attention.num_attention_heads
        self._attention_output: Any = layer.attention.output
        self._intermediate: nn.Linear = layer.intermediate.dense
        self._output: Any = layer.output

    def __call__(self, hidden: Tensor, texts: PackedTexts) -> Tensor:
        from minrisk.metrics.comet.kernels import add_norm, attention

        qkv = functional.linear(hidden, self._weight, self._bias)
        attended = attention(qkv, texts.starts, texts.longest, self._heads)
        output = self._attention_output
        hidden = add_norm(output.dense(attended), hidden, output.LayerNorm)
        wide = self._widened(hidden)
        return add_norm(self._output.dense(wide), hidden, self._output.LayerNorm)

    def _widened(self, hidden: Tensor) -> Tensor:
        """(T, 4D) GELU of the first product, by its own kernel, so that it is not read again.

        That has GELU's approximation by tanh, whose error is about a rounding of half precision.
        """
        wide = self._intermediate
        return torch._addmm_activation(wide.bias, hidden, wide.weight.T, use_gelu=True)
