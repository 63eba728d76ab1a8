"""Steps as CUDA graphs: recorded once for a few sizes, replayed without the cost of launching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minrisk.arrays import Ints
from minrisk.sampling.hf.bart import BartLike, Memory
from minrisk.sampling.hf.rules import Head
from minrisk.sampling.hf.truncation import Candidates
from minrisk.transfer import staged, upload

LARGEST = 2048  # rows; more of them keep a device busy while the next kernels are launched
_WARM_UP = 2  # runs before a recording, in which libraries choose their kernels


@dataclass(frozen=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    given: Tensor  # (1 + 2 * size,) a position, tokens, places
    candidates: Candidates


@dataclass(frozen=True)
class _Size:
    """What a recording is made for: rows, and those of a source; what head, how long a buffer."""

    rows: int
    widest: int
    head: Head
    room: int


class Graphs:
    """Sizes are rounded up, so that few are needed; the rows that fill up are nobody's."""

    def __init__(self, bart: BartLike) -> None:
        self._bart = bart
        self._recorded: dict[_Size, _Recorded] = {}
        self._pool = _pool()

    def clear(self, room: int | None = None) -> None:
        """The memory that was recorded with, of one length or any, is no longer the one in use."""
        self._recorded = {size: recorded for size, recorded in self._recorded.items()
                          if room not in (None, size.room)}
        if not self._recorded:  # torch gives a pool up with the last graph in it
            self._pool = _pool()

    def suit(self, rows: int, head: Head, memory: Memory) -> bool:
        return head.is_recordable and max(rows, memory.own.shape[2]) <= LARGEST

    def step(self, tokens: Ints, position: int, source: Ints, ranks: Ints, memory: Memory,
             head: Head) -> Candidates:
        slots, room = memory.own.shape[2], memory.own.shape[4]
        rows = min(_round(len(tokens), 2), slots)
        size = _Size(rows, min(_round(int(ranks.max()) + 1, 4), rows), head, room)
        given = _blank(size, memory, position)
        given[1 : 1 + len(tokens)] = tokens
        given[1 + size.rows : 1 + size.rows + len(tokens)] = source * size.widest + ranks
        if size not in self._recorded:
            self._recorded[size] = self._record(size, memory)
        recorded = self._recorded[size]
        recorded.given.copy_(staged(given, memory.own.device), non_blocking=True)
        recorded.graph.replay()
        return recorded.candidates

    def _record(self, size: _Size, memory: Memory) -> _Recorded:
        # the last position: a real step writes there before anything reads it
        given = upload(_blank(size, memory, size.room - 1), memory.own.device)
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._run(size, given, memory)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            candidates = self._run(size, given, memory)
        return _Recorded(graph, given, candidates)

    def _run(self, size: _Size, given: Tensor, memory: Memory) -> Candidates:
        position, tokens, places = torch.split(given, [1, size.rows, size.rows])
        logits = self._bart.step(tokens, position, places, size.widest, size.room, memory,
                                 rounded=True)
        return size.head(logits, _no_history)


def _pool() -> Any:
    """One for all graphs: what a step leaves is drawn from before the next one writes over it."""
    return torch.cuda.graph_pool_handle()


def _blank(size: _Size, memory: Memory, position: int) -> Ints:
    """A position, and rows of nobody: they stand behind the last place of the last source."""
    given = np.zeros(1 + 2 * size.rows, np.intp)
    given[0] = position
    given[1 + size.rows :] = memory.over.shape[2] * size.widest
    return given


def _no_history() -> Ints:
    raise AssertionError("what looks at histories is not recorded")


def _round(number: int, bits: int) -> int:
    """Up to a power of two whose exponent these bits divide; 16 at least."""
    return int(max(16, 1 << bits * -(-(number - 1).bit_length() // bits)))
