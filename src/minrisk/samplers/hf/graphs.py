"""Steps as CUDA graphs: recorded once for a few sizes, replayed without the cost of launching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Ints
from minrisk._torch.device import staged, upload
from minrisk.samplers.hf.attention import KVCache, Network, TritonAttention
from minrisk.samplers.hf.logits_processing import LogitsProcessing
from minrisk.samplers.hf.truncation import Candidates

_WARM_UP = 2  # runs before a recording, in which libraries choose their kernels


@dataclass(frozen=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    given: Tensor  # (1 + 3 * rows,) a position, tokens, sources, rows by source
    candidates: Candidates


@dataclass(frozen=True)
class _Size:
    """What a recording is made for: rows, how long a buffer, and what becomes of the logits."""

    rows: int
    room: int
    processing: LogitsProcessing


class Graphs:
    """Sizes are rounded up, so that few are needed; the rows that fill up are nobody's."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._recorded: dict[_Size, _Recorded] = {}
        self._pool = _pool()

    def clear(self, room: int | None = None) -> None:
        """The cache that was recorded with, of one length or any, is no longer the one in use."""
        self._recorded = {size: recorded for size, recorded in self._recorded.items()
                          if room not in (None, size.room)}
        if not self._recorded:  # torch gives a pool up with the last graph in it
            self._pool = _pool()

    def step(self, tokens: Ints, position: int, source: Ints, cache: KVCache,
             processing: LogitsProcessing) -> Candidates:
        slots, room = cache.self_kv.shape[2], cache.self_kv.shape[4]
        size = _Size(min(_round(len(tokens)), slots), room, processing)
        given = _blank(size, position)
        given[1 : 1 + len(tokens)] = tokens
        given[1 + size.rows : 1 + size.rows + len(tokens)] = source
        given[1 + 2 * size.rows : 1 + 2 * size.rows + len(tokens)] = source.argsort(kind="stable")
        if size not in self._recorded:
            self._recorded[size] = self._record(size, cache)
        recorded = self._recorded[size]
        recorded.given.copy_(staged(given, cache.self_kv.device), non_blocking=True)
        recorded.graph.replay()
        return recorded.candidates

    def _record(self, size: _Size, cache: KVCache) -> _Recorded:
        # the last position: a real step writes there before anything reads it
        given = upload(_blank(size, size.room - 1), cache.self_kv.device)
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._run(size, given, cache)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            candidates = self._run(size, given, cache)
        return _Recorded(graph, given, candidates)

    def _run(self, size: _Size, given: Tensor, cache: KVCache) -> Candidates:
        position, tokens, source, order = torch.split(given, [1, *[size.rows] * 3])
        logits = self._network.step(tokens, position,
                                    TritonAttention(cache, position, source, order))
        return size.processing(logits, _no_history)


def _pool() -> Any:
    """One for all graphs: what a step leaves is drawn from before the next one writes over it."""
    return torch.cuda.graph_pool_handle()


def _blank(size: _Size, position: int) -> Ints:
    """A position, and rows of nobody, which look at the first source."""
    given = np.zeros(1 + 3 * size.rows, np.intp)
    given[0] = position
    given[1 + 2 * size.rows :] = np.arange(size.rows)
    return given


def _no_history() -> Ints:
    raise AssertionError("what looks at histories is not recorded")


def _round(number: int) -> int:
    """Up to a power of four; 16 at least."""
    return int(max(16, 1 << 2 * -(-(number - 1).bit_length() // 2)))
