"""Attention of the rows of a batch to the KV cache: torch, the native core, or Triton kernels.

Self-attention keys and values are stored once per distinct prefix, cross-attention keys and values
once per source. Rows of the same source are adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from minrisk._core.arrays import Ints
from minrisk._core.lazy import lazy
from minrisk.samplers.hf import native
from minrisk.samplers.hf.logits_processing import Logits
from minrisk.samplers.hf.prefixes import TokenizedPrompt


@dataclass(frozen=True)
class KVCache:
    """The keys and values that a step reads, and the slots to which it writes new ones."""

    self_kv: Tensor  # (layers, 2, slots, heads, D) keys and values of generated tokens
    paths: Tensor  # (R, T) slots of the tokens of each row, including the new one
    cross_kv: Tensor  # (layers, 2, S, heads, L, D) keys and values of the sources
    lengths: Tensor  # (S,) lengths of the sources, without padding

    def addresses(self, position: int) -> Ints:
        """All pointers and sizes, in the order in which the kernels read them, and the position of
        the new tokens. Passed as data, so that a CUDA graph can be replayed with other caches.
        """
        size = self.self_kv.itemsize
        return np.array([self.self_kv.data_ptr(), self.self_kv.stride(1) * size,
                         self.paths.data_ptr(), self.paths.stride(0),
                         self.cross_kv.data_ptr(), self.cross_kv.stride(1) * size,
                         self.cross_kv.shape[4], self.lengths.data_ptr(), position], np.intp)


class Attention(Protocol):
    """Attention of a layer's rows; queries and results are (R, heads, D)."""

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of rows to their own prefixes; writes the new keys and values to the cache."""
        ...

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        """Attention of rows to their sources."""
        ...

    def shared_prompt_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor,
                                scale: float, softcap: float | None) -> Tensor:
        """Attention of rows to their prompts and their own tokens, for causal models; writes the
        new keys and values, (R, kv heads, D) each, to the cache.
        """
        ...


class Network(Protocol):
    """A model's modules, run for one token of many rows."""

    layers: int
    heads: int  # number of KV heads
    size: int  # head dimension

    def encode(self, prompts: Sequence[TokenizedPrompt]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The shared KV cache (layers, 2, S, heads, L, D) of sources or prompts, their lengths
        (S,), and the logits (S, V) of the next token if the model computes them already.
        """
        ...

    def step(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Logits:
        """(R, V) logits after the tokens (R,) at these positions (R,) of their sequences."""
        ...


@dataclass(frozen=True)
class TorchAttention:
    """Attention with torch; the rows of each source form one padded query."""

    cache: KVCache
    length: int  # tokens of each row, including the new one
    source: Tensor  # (R,) source of each row

    @lazy
    def _rows_of_source(self) -> Tensor:
        """(S,)"""
        return self.source.bincount(minlength=len(self.cache.lengths))

    @lazy
    def _widest(self) -> int:
        return int(self._rows_of_source.max())

    @lazy
    def _places(self) -> Tensor:
        """(R,) index of each row in the padded queries of all sources."""
        first = self._rows_of_source.cumsum(0) - self._rows_of_source
        rows = torch.arange(len(self.source), device=self.source.device)
        return self.source * self._widest + rows - first[self.source]

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        past = self._append(layer, keys, values)
        return scaled_dot_product_attention(queries[:, :, None], past[0], past[1])[:, :, 0]

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        cross_kv = self.cache.cross_kv[layer]
        inside = self._inside(cross_kv)[:, None, None]
        out = scaled_dot_product_attention(self._by_source(queries), cross_kv[0], cross_kv[1],
                                           attn_mask=inside)
        return self._by_row(out)

    def shared_prompt_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor,
                                scale: float, softcap: float | None) -> Tensor:
        prompt_kv, own_kv = self.cache.cross_kv[layer], self._append(layer, keys, values)
        kv_heads, length, size = prompt_kv.shape[2:]
        grouped = (queries * scale).view(len(queries), kv_heads, -1, size)  # (R, K, G, D)
        there = (self._by_source(grouped) @ prompt_kv[0].mT[:, :, None]).float()  # (S, K, W, G, L)
        own = (grouped @ own_kv[0].mT).float()  # (R, K, G, T)
        if softcap is not None:
            there, own = (softcap * (part / softcap).tanh() for part in (there, own))
        there = there.masked_fill(~self._inside(prompt_kv)[:, None, None, None], -torch.inf)
        shares = torch.cat([self._by_row(there), own], -1).softmax(-1).to(queries.dtype)
        from_prompt = self._by_source(shares[..., :length]) @ prompt_kv[1][:, :, None]
        out = self._by_row(from_prompt) + shares[..., length:] @ own_kv[1]
        return out.flatten(1, 2)

    def _append(self, layer: int, keys: Tensor, values: Tensor) -> Tensor:
        """(2, R, heads, T, D) keys and values of the rows, including the new ones."""
        paths, self_kv = self.cache.paths[: len(keys), : self.length], self.cache.self_kv[layer]
        self_kv[:, paths[:, -1]] = torch.stack([keys, values])
        return self_kv[:, paths].transpose(2, 3)

    def _inside(self, cross_kv: Tensor) -> Tensor:
        """(S, L) mask that is False for padding."""
        tokens = torch.arange(cross_kv.shape[3], device=cross_kv.device)
        return tokens < self.cache.lengths[:, None]

    def _by_source(self, per_row: Tensor) -> Tensor:
        """(S, heads, widest, ...) from (R, heads, ...)."""
        sources = len(self.cache.lengths)
        wide = per_row.new_zeros(sources * self._widest, *per_row.shape[1:])
        wide[self._places] = per_row
        return wide.view(sources, self._widest, *per_row.shape[1:]).transpose(1, 2)

    def _by_row(self, per_source: Tensor) -> Tensor:
        """(R, heads, ...) from (S, heads, widest, ...)."""
        return per_source.transpose(1, 2).flatten(0, 1)[self._places]


@dataclass(frozen=True)
class NativeAttention(TorchAttention):
    """Attention with the native core, which reads the cache in place; shared prompts by torch."""

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return native.self_attention(queries, keys, values, self.cache.self_kv[layer],
                                     self.cache.paths[: len(keys), : self.length])

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        return native.cross_attention(queries, self.cache.cross_kv[layer], self.source,
                                      self.cache.lengths)


@dataclass(frozen=True)
class TritonAttention:
    """Attention with Triton kernels; captured by a CUDA graph, it works for any cache and position.
    """

    cache: Tensor  # addresses of a `KVCache`
    source: Tensor  # (R,) source of each row

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        from minrisk.samplers.hf.kernels import self_attention

        return self_attention(queries, keys, values, self.cache, layer)

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        from minrisk.samplers.hf.kernels import cross_attention

        return cross_attention(queries, self.cache, layer, self.source)

    def shared_prompt_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor,
                                scale: float, softcap: float | None) -> Tensor:
        from minrisk.samplers.hf.causal_kernels import shared_prompt_attention

        return shared_prompt_attention(queries, keys, values, self.cache, layer, self.source, scale,
                                       softcap)


def attention_backend(device: torch.device) -> AbstractContextManager[None]:
    """torch's backends except cuDNN, which plans for each new shape, i.e. at every step."""
    if device.type != "cuda":
        return nullcontext()
    chosen: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return chosen
