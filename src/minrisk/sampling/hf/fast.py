"""The decoder for models of BART's build: rows stay where they are, and sources are shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minrisk.sampling.hf.bart import BartLike, Memory
from minrisk.sampling.hf.generic import encode, token_bytes
from minrisk.sampling.hf.graphs import Graphs
from minrisk.sampling.hf.prefixes import Prompt


class FastDecoder:
    """Rows are slots of one buffer; only those are copied that are not their own parent."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._bart = BartLike(model)
        self._graphs = Graphs() if model.device.type == "cuda" else None
        self.token_bytes = token_bytes(model)
        nothing = torch.empty(0, 0, 0, 0, 0, 0)
        self._memory = Memory(nothing, nothing, nothing)

    def start(self, prompts: Sequence[Prompt]) -> Tensor:
        encoded, mask = encode(self._model, prompts)
        self._set_sources(self._bart.over(encoded), mask.bool()[:, None, None])
        self._source = torch.arange(len(prompts), device=mask.device)
        self._rows, self._length = len(prompts), 0
        self._reserve(len(prompts), 1)
        prefix = torch.tensor([prompt.prefix for prompt in prompts], device=mask.device)
        for column in range(prefix.shape[1]):
            logits = self._run(prefix[:, column])
        return logits

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        self._source = self._source[parents]
        self._reserve(len(parents), self._length + 1)
        moved = (parents != torch.arange(len(parents), device=parents.device)).nonzero()[:, 0]
        if len(moved):
            written = self._memory.own[:, :, :, :, : self._length]
            written[:, :, moved] = written[:, :, parents[moved]]
        self._rows = len(parents)
        return self._run(tokens)

    def _run(self, tokens: Tensor) -> Tensor:
        places, widest = _side_by_side(self._source, self._memory.over.shape[2])
        position = torch.tensor([self._length], device=tokens.device)
        self._length += 1
        if self._graphs is None:
            return self._bart.step(tokens, position, places, widest, self._length, self._memory)
        return self._graphs.step(self._bart, tokens, position, places, widest, self._length,
                                 self._memory)

    def _set_sources(self, over: Tensor, mask: Tensor) -> None:
        """In the memory of the last ones if they fit it exactly, for graphs remember where it is.
        """
        memory = self._memory
        if memory.over.shape == over.shape and self._graphs is not None:
            memory.over.copy_(over)
            memory.mask.copy_(mask)
        else:
            self._memory = Memory(memory.own, over, mask)
            self._forget()

    def _reserve(self, rows: int, length: int) -> None:
        """Room for this many rows of this length; grows by doubling."""
        own = self._memory.own
        slots, room = own.shape[2], own.shape[4]
        if rows <= slots and length <= room:
            return
        bart = self._bart
        grown = torch.zeros(
            len(bart.layers), 2, max(slots, _power(rows)), bart.heads, max(room, _power(length)),
            bart.size, dtype=self._model.dtype, device=self._model.device)
        if self._length:
            kept = own[:, :, : self._rows, :, : self._length]
            grown[:, :, : self._rows, :, : self._length] = kept
        self._memory = Memory(grown, self._memory.over, self._memory.mask)
        self._forget()

    def _forget(self) -> None:
        if self._graphs is not None:
            self._graphs.clear()


def _power(number: int) -> int:
    """The least power of two that is no less, and 16 at least."""
    return max(16, 1 << (number - 1).bit_length())


def _side_by_side(source: Tensor, sources: int) -> tuple[Tensor, int]:
    """A place for each row such that those of a source are neighbours, and how many a source has.
    """
    counts = torch.bincount(source, minlength=sources)
    widest = int(counts.max())
    order = source.argsort(stable=True)
    before = (counts.cumsum(0) - counts)[source[order]]
    places = torch.empty_like(source)
    places[order] = source[order] * widest + torch.arange(len(source), device=source.device)
    places[order] -= before
    return places, widest
