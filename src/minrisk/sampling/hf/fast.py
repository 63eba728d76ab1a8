"""The decoder for models of BART's build: rows stay where they are, and sources are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import proxy

import numpy as np
import torch
from torch import Tensor

from minrisk._torch.device import triton_not_supported_reasons, upload
from minrisk.arrays import Ints
from minrisk.sampling.hf.attention import (
    Copy,
    Fused,
    Memory,
    Plain,
    fused_copy,
    plain_copy,
)
from minrisk.sampling.hf.bart import BartLike
from minrisk.sampling.hf.generic import encode, prefixes, token_bytes
from minrisk.sampling.hf.graphs import Graphs
from minrisk.sampling.hf.prefixes import Move, Prompt
from minrisk.sampling.hf.rules import Head
from minrisk.sampling.hf.truncation import Candidates

LARGEST = 2048  # rows of a recorded step; more keep a device busy while kernels are launched
_SHORTEST = 32  # tokens of a buffer; longer ones have room for two, four, ... times as many


class FastDecoder:
    """Rows are slots of a buffer; only those are copied that are not their own parent."""

    def __init__(self, model: Any) -> None:
        self._model = proxy(model)  # whose owner may keep this one
        self._bart = BartLike(model)
        self._made_of = _state(model)
        is_fused = not triton_not_supported_reasons(model.device)
        self._graphs = Graphs(self._bart) if is_fused else None
        self._copy_rows: Copy = fused_copy if is_fused else plain_copy
        self.token_bytes = token_bytes(model)
        self._kept: dict[int, Tensor] = {}  # buffers by the tokens that they have room for
        nothing = torch.empty(0, 0, 0, 0, 0, 0)
        self._memory = Memory(nothing, nothing, nothing)

    def is_up_to_date(self) -> bool:
        """Whether the model is where it was, and has the weights that it had."""
        return self._made_of == _state(self._model)

    def start(self, prompts: Sequence[Prompt], samples: int, head: Head) -> Candidates:
        encoded, mask = encode(self._model, prompts)
        own = self._buffer(len(prompts), samples, len(prompts[0].prefix))
        self._memory = Memory(own, *self._sources(self._bart.over(encoded), mask.sum(1)))
        self._source = np.arange(len(prompts))
        self._length = 0
        prefix = prefixes(prompts)
        for column in prefix.T:
            candidates = self._run(column, head, lambda: prefix)
        return candidates

    def step(self, move: Move, head: Head) -> Candidates:
        rows = np.arange(len(move.parents))
        self._source = self._source[move.parents]
        own = self._buffer(len(rows), move.samples, self._length + 1)
        if own is self._memory.own:
            self._copy(own, rows[move.parents != rows], move.parents)
        else:
            self._copy(own, rows, move.parents)
            self._memory = replace(self._memory, own=own)
        return self._run(move.tokens, head, move.history)

    def _copy(self, own: Tensor, rows: Ints, parents: Ints) -> None:
        """What the parents of some rows remember, to where they are now."""
        if len(rows):
            to, of = upload(np.stack([rows, parents[rows]]), own.device)
            self._copy_rows(self._memory.own, own, of, to, self._length)

    def _run(self, tokens: Ints, head: Head, history: Callable[[], Ints]) -> Candidates:
        position, memory = self._length, self._memory
        self._length += 1
        is_kept = self._kept.get(memory.own.shape[4]) is memory.own
        if self._graphs is not None and is_kept and head.is_recordable:
            return self._graphs.step(tokens, position, self._source, memory, head)
        given = upload(np.concatenate([[position], tokens, self._source]), memory.own.device)
        at, own, source = torch.split(given, [1, *[len(tokens)] * 2])
        look = Fused(memory, at, source) if self._graphs is not None else self._plain(at)
        return head(self._bart.step(own, at, look), history)

    def _plain(self, position: Tensor) -> Plain:
        ranks = _ranks(self._source)
        widest = int(ranks.max()) + 1
        places = upload(self._source * widest + ranks, position.device)
        return Plain(self._memory, position, self._length, places, widest)

    def _sources(self, over: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Where the sources are; for graphs always at one place, which grows if they do not fit."""
        if self._graphs is None:
            return over, lengths
        layers, two, sources, heads, length, size = over.shape
        kept, known = self._memory.over, self._memory.lengths
        if sources > kept.shape[2] or length > kept.shape[4]:
            count = max(kept.shape[2], _power(sources, 1))
            room = max(kept.shape[4], _power(length, _SHORTEST))
            kept = over.new_empty(layers, two, count, heads, room, size)
            known = lengths.new_empty(count)
            self._graphs.clear()
        kept[:, :, :sources, :, :length] = over
        known[:sources] = lengths
        return kept, known

    def _buffer(self, rows: int, samples: int, length: int) -> Tensor:
        """Room for rows; small ones have as much as samples can need, and are kept: graphs are made
        of them. Sizes are few, so that torch has the memory of the last one at hand.
        """
        room, now = _power(length, _SHORTEST), self._memory.own
        if samples > LARGEST:
            fits = now.shape[4] == room and now.shape[2] >= rows
            return now if fits else self._zeros(_power(rows, 2 * LARGEST), room)
        if room not in self._kept or self._kept[room].shape[2] < samples:
            self._kept[room] = self._zeros(_power(samples, 64), room)
            if self._graphs is not None:
                self._graphs.clear(room)
        return self._kept[room]

    def _zeros(self, slots: int, room: int) -> Tensor:
        """Rows that fill up are nobody's, but have to be numbers."""
        bart = self._bart
        return torch.zeros(len(bart.layers), 2, slots, bart.heads, room, bart.size,
                           dtype=self._model.dtype, device=self._model.device)


def _state(model: Any) -> tuple[object, ...]:
    weight = model.get_output_embeddings().weight
    changes = None if weight.is_inference() else weight._version
    return weight.device, weight.dtype, weight.data_ptr(), changes


def _power(number: int, least: int) -> int:
    """The least power of two that is no less."""
    return max(least, 1 << (number - 1).bit_length())


def _ranks(source: Ints) -> Ints:
    """(R,) the number of each row among those of its source."""
    order = source.argsort(kind="stable")
    alike = source[order]
    ranks = np.empty_like(source)
    ranks[order] = np.arange(len(source)) - alike.searchsorted(alike)
    return ranks
