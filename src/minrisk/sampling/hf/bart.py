"""Decoders of BART's build, run for one token of many prefixes that share their sources.

The modules are the model's own; what differs from its forward pass is where keys and values lie:
those of the prefixes in one buffer with room to write, those of a source in one copy, which all of
its prefixes ask side by side, as if they were one long query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention


@dataclass(frozen=True)
class Family:
    """How the decoders that are called so differ from each other."""

    norm_first: bool
    first_position: Callable[[Any], int]  # the row of a decoder's table for the first token
    blank_padding: bool = False  # the padding token has no position


FAMILIES = {
    "bart": Family(False, lambda decoder: 2),
    "mbart": Family(True, lambda decoder: 2),
    "marian": Family(False, lambda decoder: 0),
    "m2m_100": Family(True, lambda decoder: decoder.padding_idx + 1, blank_padding=True),
    "fsmt": Family(False, lambda decoder: decoder.padding_idx + 1),
}


def not_supported_reasons(model: Any) -> list[str]:
    """Why a model has to be run through its own forward pass; none if it need not."""
    reasons = []
    if model.config.model_type not in FAMILIES:
        reasons.append(f"{model.config.model_type} is not one of {', '.join(FAMILIES)}")
    if getattr(model, "hf_device_map", None):
        reasons.append("the model is spread over several devices")
    if model.training:
        reasons.append("the model is being trained")
    return reasons


@dataclass(frozen=True)
class Memory:
    """What a step reads and writes besides its rows."""

    own: Tensor  # (layers, 2, slots, heads, T, D) keys and values of the prefixes
    over: Tensor  # (layers, 2, S, heads, L, D) of the sources
    mask: Tensor  # (S, 1, 1, L) which of those are no padding


class BartLike:
    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder()
        self._family = FAMILIES[model.config.model_type]
        self._decoder = decoder
        self._pad = decoder.padding_idx
        self._scale = 1.0 if hasattr(decoder.embed_tokens, "embed_scale") else decoder.embed_scale
        table = decoder.embed_positions
        table = table.weights if hasattr(table, "weights") else table.weight
        self._positions = table[self._family.first_position(decoder) :]
        # FSMT projects inside its decoder
        head = getattr(decoder, "output_projection", None) or model.get_output_embeddings()
        self._projection = head.weight
        self._bias = getattr(model, "final_logits_bias", None)
        self.layers = decoder.layers
        self.heads = self.layers[0].self_attn.num_heads
        self.size = self.layers[0].self_attn.head_dim

    def over(self, encoded: Tensor) -> Tensor:
        """(layers, 2, S, heads, L, D) the keys and values of sources, from (S, L, heads * D)."""
        return torch.stack([
            torch.stack([self._split(project(encoded)).transpose(1, 2)
                         for project in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)])
            for layer in self.layers])

    def step(self, tokens: Tensor, position: Tensor, places: Tensor, widest: int, length: int,
             memory: Memory, rounded: bool = False) -> Tensor:
        """(R, V) logits of what follows the tokens (R,), which are all at one position.

        `places` is where each row's query stands among the sources' queries, of which each source
        has room for `widest`; `length` is how many positions of the buffer are looked at, of which
        those past this one are masked if it was rounded up.
        """
        seen = None
        if rounded:
            seen = (torch.arange(length, device=tokens.device) <= position)[None]  # (1, T)
        x = self._embed(tokens, position)
        for layer, own, over in zip(self.layers, memory.own, memory.over, strict=True):
            look_back = partial(self._look_back, layer.self_attn, own, position, length, seen)
            look_over = partial(self._look_over, layer.encoder_attn, over, places, widest,
                                memory.mask)
            x = self._block(x, layer.self_attn_layer_norm, look_back)
            x = self._block(x, layer.encoder_attn_layer_norm, look_over)
            x = self._block(x, layer.final_layer_norm, partial(_think, layer))
        norm = getattr(self._decoder, "layer_norm", None)
        x = x if norm is None else norm(x)
        bias = None if self._bias is None else self._bias[0].to(x.dtype)
        return linear(x, self._projection, bias)

    def _embed(self, tokens: Tensor, position: Tensor) -> Tensor:
        places = self._positions[position]  # (1, heads * D)
        if self._family.blank_padding:
            places = places * (tokens != self._pad)[:, None]
        x: Tensor = self._decoder.embed_tokens(tokens) * self._scale + places
        norm = getattr(self._decoder, "layernorm_embedding", None)
        return x if norm is None else norm(x)

    def _block(self, x: Tensor, norm: Any, run: Callable[[Tensor], Tensor]) -> Tensor:
        if self._family.norm_first:
            return x + run(norm(x))
        normed: Tensor = norm(x + run(x))
        return normed

    def _look_back(self, attention: Any, own: Tensor, position: Tensor, length: int,
                   seen: Tensor | None, x: Tensor) -> Tensor:
        """Attention of each row to its own prefix; writes what later tokens will look at."""
        rows = len(x)
        keys, values = own[0, :rows], own[1, :rows]  # (R, heads, T, D)
        keys.index_copy_(2, position, self._split(attention.k_proj(x))[:, :, None])
        values.index_copy_(2, position, self._split(attention.v_proj(x))[:, :, None])
        found = scaled_dot_product_attention(
            self._split(attention.q_proj(x))[:, :, None], keys[:, :, :length],
            values[:, :, :length], attn_mask=seen)
        out: Tensor = attention.out_proj(found.reshape(rows, -1))
        return out

    def _look_over(self, attention: Any, over: Tensor, places: Tensor, widest: int, mask: Tensor,
                   x: Tensor) -> Tensor:
        """Attention of each row to its source, of which there is one copy."""
        sources = over.shape[1]
        asked = x.new_zeros(sources * widest + 1, x.shape[1])  # the last is for rows that fill up
        asked[places] = attention.q_proj(x)
        queries = self._split(asked[:-1].view(sources, widest, -1)).transpose(1, 2)
        found = scaled_dot_product_attention(queries, over[0], over[1], attn_mask=mask)
        told = found.transpose(1, 2).reshape(sources * widest, -1)
        out: Tensor = attention.out_proj(told[places.clamp(max=len(told) - 1)])
        return out

    def _split(self, x: Tensor) -> Tensor:
        """(..., heads, D)"""
        return x.view(*x.shape[:-1], self.heads, self.size)


def _think(layer: Any, x: Tensor) -> Tensor:
    """What a layer does to each row by itself."""
    out: Tensor = layer.fc2(layer.activation_fn(layer.fc1(x)))
    return out
