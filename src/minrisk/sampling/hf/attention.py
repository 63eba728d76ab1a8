"""How rows look at what they remember: with torch's attention, or with kernels of our own.

The keys and values of the prefixes lie in one buffer with room to write; those of a source are
one copy, which all of its prefixes share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class Memory:
    """What a step reads and writes besides its rows."""

    own: Tensor  # (layers, 2, slots, heads, T, D) keys and values of the prefixes
    over: Tensor  # (layers, 2, S, heads, L, D) of the sources
    lengths: Tensor  # (S,) of the sources; what follows is padding


class Copy(Protocol):
    def __call__(self, known: Tensor, own: Tensor, of: Tensor, to: Tensor, length: int) -> None:
        """Copies what rows `of` (N,) remember of the first tokens to rows `to` (N,).

        From buffers as in a `Memory` to others, or the same; then no row is both read and written.
        """
        ...


class Attention(Protocol):
    """What a layer's rows find, (R, heads, D), for queries of that shape."""

    def back(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """In their own prefixes; writes the new keys and values, for later tokens to look at."""
        ...

    def over(self, layer: int, queries: Tensor) -> Tensor:
        """In their sources."""
        ...


@dataclass(frozen=True)
class Plain:
    """The rows of a source stand side by side, as if they were one long query."""

    memory: Memory
    position: Tensor  # (1,)
    length: int  # one more than that
    places: Tensor  # (R,) where each row stands among the queries of all sources
    widest: int  # rows of a source for which there is room

    def back(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        known = self.memory.own[layer, :, : len(queries)]
        for memory, new in zip(known, (keys, values), strict=True):
            memory.index_copy_(2, self.position, new[:, :, None])
        past = known[:, :, :, : self.length]
        return scaled_dot_product_attention(queries[:, :, None], past[0], past[1])

    def over(self, layer: int, queries: Tensor) -> Tensor:
        memory = self.memory.over[layer]
        _, sources, heads, length, size = memory.shape
        asked = queries.new_zeros(sources * self.widest, heads, size)
        asked[self.places] = queries
        asked = asked.view(sources, self.widest, heads, size).transpose(1, 2)
        tokens = torch.arange(length, device=queries.device)
        inside = (tokens < self.memory.lengths[:, None])[:, None, None]
        found = scaled_dot_product_attention(asked, memory[0], memory[1], attn_mask=inside)
        return found.transpose(1, 2).reshape(-1, heads, size)[self.places]


def plain_copy(known: Tensor, own: Tensor, of: Tensor, to: Tensor, length: int) -> None:
    own[:, :, :, :, :length][:, :, to] = known[:, :, :, :, :length][:, :, of]


@dataclass(frozen=True)
class Fused:
    """The same for any number of rows, with nothing that depends on it: it can be recorded."""

    memory: Memory
    position: Tensor  # (1,)
    source: Tensor  # (R,) of each row

    def back(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        from minrisk.sampling.hf.kernels import look_back

        return look_back(queries, keys, values, self.memory.own[layer], self.position)

    def over(self, layer: int, queries: Tensor) -> Tensor:
        from minrisk.sampling.hf.kernels import look_over

        return look_over(queries, self.memory.over[layer], self.source, self.memory.lengths)


def fused_copy(known: Tensor, own: Tensor, of: Tensor, to: Tensor, length: int) -> None:
    from minrisk.sampling.hf.kernels import copy_rows

    copy_rows(known, own, of, to, length)
