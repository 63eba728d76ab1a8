"""Single-token steps of BART-like decoders, for many prefixes that share their sources.

The modules and weights are the model's own; only the KV cache and attention differ from its forward
pass (see `attention`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import proxy

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from minrisk._torch.device import triton_not_supported_reasons
from minrisk._torch.int8 import Int8Linear
from minrisk._torch.onednn import OneDnnLinear
from minrisk.samplers.hf.attention import Attention
from minrisk.samplers.hf.generic_decoder import encode, state_reasons
from minrisk.samplers.hf.logits_processing import Logits, ProjectedLogits
from minrisk.samplers.hf.prefixes import TokenizedPrompt

_VOCABULARY_MULTIPLE = 64  # matrix products of other sizes take twice as long


@dataclass(frozen=True)
class DecoderFamily:
    """Differences between BART-like decoders."""

    norm_first: bool
    first_position: Callable[[Any], int]  # row of the position table for the first token
    zero_padding_position: bool = False  # the padding token has no position embedding


FAMILIES = {
    "bart": DecoderFamily(False, lambda decoder: 2),
    "mbart": DecoderFamily(True, lambda decoder: 2),
    "marian": DecoderFamily(False, lambda decoder: 0),
    "m2m_100": DecoderFamily(True, lambda decoder: decoder.padding_idx + 1,
                             zero_padding_position=True),
    "fsmt": DecoderFamily(False, lambda decoder: decoder.padding_idx + 1),
}


def not_supported_reasons(model: Any) -> list[str]:
    """Reasons why a model must be run by its own forward pass; none if `BartLike` can run it."""
    reasons = []
    if model.config.model_type not in FAMILIES:
        reasons.append(f"{model.config.model_type} is not one of {', '.join(FAMILIES)}")
    return reasons + state_reasons(model)


class BartLike:
    """The decoder of a BART-like model, one token at a time."""

    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder()
        self._family = FAMILIES[model.config.model_type]
        self._decoder = decoder
        self._pad = decoder.padding_idx
        self._scale = 1.0 if hasattr(decoder.embed_tokens, "embed_scale") else decoder.embed_scale
        table = decoder.embed_positions
        table = table.weights if hasattr(table, "weights") else table.weight
        self._positions = table[self._family.first_position(decoder) :]
        # FSMT has the projection inside its decoder
        head = getattr(decoder, "output_projection", None) or model.get_output_embeddings()
        self._project = _projection(head, getattr(model, "final_logits_bias", None))
        self._model, self._layers = proxy(model), decoder.layers
        self._inputs = [_joint_projection(layer.self_attn) for layer in decoder.layers]
        self._is_fused = not triton_not_supported_reasons(model.device)
        self.layers = len(decoder.layers)
        self.heads = decoder.layers[0].self_attn.num_heads
        self.size = decoder.layers[0].self_attn.head_dim

    def encode(self, prompts: Sequence[TokenizedPrompt]) -> tuple[Tensor, Tensor, None]:
        """Keys and values (layers, 2, S, heads, L, D) of the sources, and their lengths (S,)."""
        encoded, mask = encode(self._model, prompts)  # (S, L, heads * D)
        cross_kv = torch.stack([
            torch.stack([self._split(project(encoded)).transpose(1, 2)
                         for project in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)])
            for layer in self._layers])
        return cross_kv, mask.sum(1), None

    def step(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Logits:
        """(R, V) logits after the tokens (R,) at these positions (R,)."""
        x = self._embed(tokens, positions)
        for number, layer in enumerate(self._layers):
            self_attention = partial(self._self_attention, layer.self_attn, self._inputs[number],
                                     partial(attention.self_attention, number))
            cross_attention = partial(self._cross_attention, layer.encoder_attn,
                                      partial(attention.cross_attention, number))
            x = self._residual(x, layer.self_attn_layer_norm, self_attention)
            x = self._residual(x, layer.encoder_attn_layer_norm, cross_attention)
            x = self._residual(x, layer.final_layer_norm, partial(_feed_forward, layer))
        norm = getattr(self._decoder, "layer_norm", None)
        x = x if norm is None else norm(x)
        return ProjectedLogits(x, self._project) if x.device.type == "cpu" else self._project(x)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        places = self._positions[positions]  # (R, heads * D)
        if self._family.zero_padding_position:
            places = places * (tokens != self._pad)[:, None]
        x: Tensor = self._decoder.embed_tokens(tokens) * self._scale + places
        norm = getattr(self._decoder, "layernorm_embedding", None)
        return x if norm is None else norm(x)

    def _residual(self, x: Tensor, norm: Any, run: Callable[[Tensor], Tensor]) -> Tensor:
        if self._family.norm_first:
            return x + run(norm(x))
        if self._is_fused:
            from minrisk._torch.kernels import add_norm

            return add_norm(run(x), x, norm)
        normed: Tensor = norm(x + run(x))
        return normed

    def _self_attention(self, module: Any, project: Callable[[Tensor], Sequence[Tensor]],
                        attend: Callable[..., Tensor], x: Tensor) -> Tensor:
        """Attention of each row to its own prefix, of which it is the last token."""
        query, key, value = map(self._split, project(x))
        out: Tensor = module.out_proj(attend(query, key, value).reshape(x.shape))
        return out

    def _cross_attention(self, module: Any, attend: Callable[..., Tensor], x: Tensor) -> Tensor:
        """Attention of each row to its source."""
        out: Tensor = module.out_proj(attend(self._split(module.q_proj(x))).reshape(x.shape))
        return out

    def _split(self, x: Tensor) -> Tensor:
        """(..., heads, D)"""
        return x.view(*x.shape[:-1], self.heads, self.size)


def _joint_projection(module: Any) -> Callable[[Tensor], Sequence[Tensor]]:
    """Queries, keys and values, from one fused product if the modules are plain linear layers."""
    parts = (module.q_proj, module.k_proj, module.v_proj)
    if any(type(part) is not nn.Linear or part.bias is None for part in parts):
        return lambda x: [part(x) for part in parts]
    weight, bias = (torch.cat([getattr(part, name) for part in parts]).detach()
                    for name in ("weight", "bias"))
    return lambda x: linear(x, weight, bias).chunk(3, -1)


def _projection(head: Any, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Logits of the vocabulary from hidden states; `head` is a linear layer without a bias."""
    if isinstance(head, (OneDnnLinear, Int8Linear)):
        return head.with_bias(None if bias is None else bias[0])
    weight = head.weight
    # on CUDA padded with tokens of probability 0 to a size that is fast
    more = -len(weight) % _VOCABULARY_MULTIPLE if weight.is_cuda else 0
    given = weight.new_zeros(len(weight)) if bias is None else bias.to(weight)[0]
    if not more:
        return partial(linear, weight=weight, bias=None if bias is None else given)
    return partial(linear, weight=pad(weight, (0, 0, 0, more)),
                   bias=pad(given, (0, more), value=-math.inf))


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    out: Tensor = layer.fc2(layer.activation_fn(layer.fc1(x)))
    return out
