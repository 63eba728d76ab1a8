"""Steps as CUDA graphs: recorded once for a few sizes, replayed without the cost of launching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from minrisk.sampling.hf.bart import BartLike, Memory

_WARM_UP = 2  # runs before a recording, in which libraries choose their kernels


@dataclass(frozen=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    tokens: Tensor
    position: Tensor
    places: Tensor
    logits: Tensor


class Graphs:
    """Sizes are rounded up, so that few are needed; the rows that fill up are nobody's."""

    def __init__(self) -> None:
        self._recorded: dict[tuple[int, int, int], _Recorded] = {}

    def clear(self) -> None:
        """The memory that was recorded with is no longer the one in use."""
        self._recorded.clear()

    def step(self, bart: BartLike, tokens: Tensor, position: Tensor, places: Tensor, widest: int,
             length: int, memory: Memory) -> Tensor:
        slots, room = memory.own.shape[2], memory.own.shape[4]
        size = min(_round(len(tokens)), slots)
        wide, long = _round(widest), min(_round(length), room)
        sources = memory.over.shape[2]
        # a place is a source's number times the width, plus a rank below it
        places = places // widest * wide + places % widest
        key = (size, wide, long)
        if key not in self._recorded:
            self._recorded[key] = _record(bart, size, sources * wide, wide, long, memory)
        recorded = self._recorded[key]
        recorded.tokens[: len(tokens)] = tokens
        recorded.places.fill_(sources * wide)
        recorded.places[: len(places)] = places
        recorded.position.copy_(position)
        recorded.graph.replay()
        return recorded.logits[: len(tokens)]


def _record(bart: BartLike, size: int, nowhere: int, widest: int, length: int,
            memory: Memory) -> _Recorded:
    device = memory.own.device
    tokens = torch.zeros(size, dtype=torch.long, device=device)
    places = torch.full_like(tokens, nowhere)
    # the last position that is looked at: the next real step writes there before anything reads it
    position = torch.full((1,), length - 1, device=device)
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            bart.step(tokens, position, places, widest, length, memory, rounded=True)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = bart.step(tokens, position, places, widest, length, memory, rounded=True)
    return _Recorded(graph, tokens, position, places, logits)


def _round(number: int) -> int:
    """Up to a power of two, or three quarters of one; 16 at least."""
    power = max(16, 1 << (number - 1).bit_length())
    return power * 3 // 4 if number <= power * 3 // 4 else power
