"""Attention of the rows of a batch to the KV cache: with torch, or with Triton kernels of our own.

The self-attention keys and values of the prefixes are in one buffer with free positions; the
cross-attention keys and values of a source are one copy, which all of its prefixes share.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class KVCache:
    """Keys and values that a step reads, and where it writes new ones."""

    self_kv: Tensor  # (layers, 2, slots, heads, T, D) of the prefixes
    cross_kv: Tensor  # (layers, 2, S, heads, L, D) of the sources
    lengths: Tensor  # (S,) of the sources; what follows is padding


class CopyRows(Protocol):
    def __call__(self, source: Tensor, target: Tensor, rows: Tensor, to: Tensor,
                 length: int) -> None:
        """Copies the keys and values of the first tokens from `rows` (N,) to rows `to` (N,).

        From one `self_kv` buffer to another, or the same; then no row is both read and written.
        """
        ...


class Attention(Protocol):
    """Attention of a layer's rows; queries and results are (R, heads, D)."""

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of rows to their own prefixes; writes the new keys and values to the cache."""
        ...

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        """Attention of rows to their sources."""
        ...


@dataclass(frozen=True)
class TorchAttention:
    """Attention with torch; the rows of each source are one padded query."""

    cache: KVCache
    position: Tensor  # (1,)
    length: int  # position + 1
    query_slots: Tensor  # (R,) index of each row among the padded queries of all sources
    max_rows_per_source: int  # of the padded queries

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        self_kv = self.cache.self_kv[layer, :, : len(queries)]
        for buffer, new in zip(self_kv, (keys, values), strict=True):
            buffer.index_copy_(2, self.position, new[:, :, None])
        past = self_kv[:, :, :, : self.length]
        return scaled_dot_product_attention(queries[:, :, None], past[0], past[1])

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        cross_kv = self.cache.cross_kv[layer]
        _, sources, heads, length, size = cross_kv.shape
        wide = queries.new_zeros(sources * self.max_rows_per_source, heads, size)
        wide[self.query_slots] = queries
        wide = wide.view(sources, self.max_rows_per_source, heads, size).transpose(1, 2)
        tokens = torch.arange(length, device=queries.device)
        inside = (tokens < self.cache.lengths[:, None])[:, None, None]
        out = scaled_dot_product_attention(wide, cross_kv[0], cross_kv[1], attn_mask=inside)
        return out.transpose(1, 2).reshape(-1, heads, size)[self.query_slots]


def copy_rows_with_torch(source: Tensor, target: Tensor, rows: Tensor, to: Tensor,
                         length: int) -> None:
    target[:, :, :, :, :length][:, :, to] = source[:, :, :, :, :length][:, :, rows]


@dataclass(frozen=True)
class TritonAttention:
    """Attention with Triton kernels, which a CUDA graph can record for any position."""

    cache: KVCache
    position: Tensor  # (1,)
    source: Tensor  # (R,) of each row

    def self_attention(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        from minrisk.samplers.hf.kernels import self_attention

        return self_attention(queries, keys, values, self.cache.self_kv[layer], self.position)

    def cross_attention(self, layer: int, queries: Tensor) -> Tensor:
        from minrisk.samplers.hf.kernels import cross_attention

        return cross_attention(queries, self.cache.cross_kv[layer], self.source,
                               self.cache.lengths)


def copy_rows_with_triton(source: Tensor, target: Tensor, rows: Tensor, to: Tensor,
                          length: int) -> None:
    from minrisk.samplers.hf.kernels import copy_rows

    copy_rows(source, target, rows, to, length)


def attention_backend(device: torch.device) -> AbstractContextManager[None]:
    """torch's backends but cuDNN's, which makes a plan for each new shape: here for every step."""
    if device.type != "cuda":
        return nullcontext()
    chosen: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return chosen
