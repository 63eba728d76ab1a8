"""The decoder for models of BART's build: rows stay where they are, and sources are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minrisk.arrays import Ints
from minrisk.sampling.hf.bart import BartLike, Memory
from minrisk.sampling.hf.generic import encode, prefixes, token_bytes
from minrisk.sampling.hf.graphs import LARGEST, Graphs
from minrisk.sampling.hf.prefixes import Move, Prompt
from minrisk.sampling.hf.rules import Head
from minrisk.sampling.hf.truncation import Candidates
from minrisk.transfer import upload

_SHORTEST = 32  # tokens of a buffer; longer ones have room for two, four, ... times as many


class FastDecoder:
    """Rows are slots of a buffer; only those are copied that are not their own parent."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._bart = BartLike(model)
        self._graphs = Graphs(self._bart) if model.device.type == "cuda" else None
        self.token_bytes = token_bytes(model)
        self._kept: dict[int, Tensor] = {}  # buffers by the tokens that they have room for
        nothing = torch.empty(0, 0, 0, 0, 0, 0)
        self._memory = Memory(nothing, nothing, nothing)

    def start(self, prompts: Sequence[Prompt], samples: int, head: Head) -> Candidates:
        encoded, mask = encode(self._model, prompts)
        own = self._buffer(samples, len(prompts[0].prefix))
        over, seen = self._sources(self._bart.over(encoded), mask.bool()[:, None, None])
        self._memory = Memory(own, over, seen)
        self._source = np.arange(len(prompts))
        self._length = 0
        prefix = prefixes(prompts)
        for column in prefix.T:
            candidates = self._run(column, head, lambda: prefix)
        return candidates

    def step(self, move: Move, head: Head) -> Candidates:
        self._source = self._source[move.parents]
        own = self._buffer(move.samples, self._length + 1)
        if own is self._memory.own:
            self._copy(own, (move.parents != np.arange(len(move.parents))).nonzero()[0],
                       move.parents)
        else:
            self._copy(own, np.arange(len(move.parents)), move.parents)
            self._memory = Memory(own, self._memory.over, self._memory.mask)
        return self._run(move.tokens, head, move.history)

    def _copy(self, own: Tensor, rows: Ints, parents: Ints) -> None:
        """What the parents of some rows remember, to where they are now."""
        if len(rows):
            to, of = upload(np.stack([rows, parents[rows]]), own.device)
            known = self._memory.own[:, :, :, :, : self._length]
            own[:, :, :, :, : self._length][:, :, to] = known[:, :, of]

    def _run(self, tokens: Ints, head: Head, history: Callable[[], Ints]) -> Candidates:
        ranks = _ranks(self._source)
        position = self._length
        self._length += 1
        memory = self._memory
        if self._graphs is not None and self._graphs.suit(len(tokens), head, memory):
            return self._graphs.step(tokens, position, self._source, ranks, memory, head)
        widest = int(ranks.max()) + 1
        given = np.concatenate([[position], tokens, self._source * widest + ranks])
        at, own, places = torch.split(upload(given, memory.own.device), [1, *[len(tokens)] * 2])
        return head(self._bart.step(own, at, places, widest, self._length, memory), history)

    def _sources(self, over: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Where the sources are; for graphs always at one place, which grows if they do not fit."""
        if self._graphs is None:
            return over, mask
        layers, two, sources, heads, length, size = over.shape
        kept, seen = self._memory.over, self._memory.mask
        if sources > kept.shape[2] or length > kept.shape[4]:
            count = max(kept.shape[2], _power(sources, 1))
            room = max(kept.shape[4], _power(length, _SHORTEST))
            kept = over.new_zeros(layers, two, count, heads, room, size)
            seen = mask.new_zeros(count, 1, 1, room)
            self._graphs.clear()
        kept[:, :, :sources, :, :length] = over
        seen.zero_()
        seen[sources:, :, :, 0] = True  # nobody's sources have to be numbers all the same
        seen[:sources, :, :, :length] = mask
        return kept, seen

    def _buffer(self, samples: int, length: int) -> Tensor:
        """Room for as many rows as there can be; small ones are kept, for graphs are made of them.
        """
        room, now = _power(length, _SHORTEST), self._memory.own
        if samples > LARGEST:
            fits = now.shape[4] == room and now.shape[2] >= samples
            return now if fits else self._zeros(samples, room)
        if room not in self._kept or self._kept[room].shape[2] < samples:
            self._kept[room] = self._zeros(_power(samples, 64), room)
            if self._graphs is not None:
                self._graphs.clear(room)
        return self._kept[room]

    def _zeros(self, slots: int, room: int) -> Tensor:
        bart = self._bart
        return torch.zeros(len(bart.layers), 2, slots, bart.heads, room, bart.size,
                           dtype=self._model.dtype, device=self._model.device)


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
