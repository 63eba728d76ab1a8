"""The self-attention KV cache of a batch of prefixes; tokens of shared prefixes are stored once."""

from __future__ import annotations

import torch
from torch import Tensor

from minrisk._torch.cuda_graphs import next_power_of_two

_MIN_SLOTS = 2048


class PrefixCache:
    """A paged cache: one slot per token, and for each row of the batch the slots of its tokens.

    Rows that branch reference the slots of their parent row; keys and values are not copied.
    """

    def __init__(self, layers: int, heads: int, size: int, like: Tensor, slots: int) -> None:
        self.kv = like.new_empty(layers, 2, slots, heads, size)  # (layers, 2, slots, heads, D)
        self.paths = torch.empty(0, 0, dtype=torch.int32, device=like.device)  # (R, T) slots
        self._used = 0  # number of used slots

    @property
    def length(self) -> int:
        """The number of tokens of each row."""
        return self.paths.shape[1]

    def append(self, parents: Tensor) -> None:
        """Allocate slots for the next token of rows that continue the rows `parents` (R,)."""
        if self.length:
            self.paths = self.paths.index_select(0, parents)
        if self._used + len(parents) > self.kv.shape[2]:
            self._make_room(len(parents))
        new = self._slots(self._used, len(parents))[:, None]
        self.paths = torch.cat([self.paths, new], 1) if self.length else new
        self._used += len(parents)

    def _slots(self, first: int, count: int) -> Tensor:
        return torch.arange(first, first + count, dtype=torch.int32, device=self.paths.device)

    def _make_room(self, rows: int) -> None:
        """Removes tokens of ended rows if they are the majority, else grows."""
        slots = self.paths.flatten()
        if 2 * (len(slots) + rows) > self.kv.shape[2]:
            self._grow(self._used + rows)
            return
        for kv in self.kv:
            kv[:, : len(slots)] = kv[:, slots]  # layer by layer, because indexing makes a copy
        self._used = len(slots)
        self.paths = self._slots(0, self._used).view_as(self.paths)

    def _grow(self, slots: int) -> None:
        layers, two, _, heads, size = self.kv.shape
        kv = self.kv.new_empty(layers, two, next_power_of_two(slots, _MIN_SLOTS), heads, size)
        kv[:, :, : self._used] = self.kv[:, :, : self._used]
        self.kv = kv
