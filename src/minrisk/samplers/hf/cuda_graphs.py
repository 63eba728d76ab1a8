"""Steps as CUDA graphs: recorded once for a few sizes, replayed without the cost of launching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Ints
from minrisk._torch.device import pinned, upload
from minrisk.samplers.hf.attention import KVCache, Network, TritonAttention
from minrisk.samplers.hf.logits_processing import LogitsProcessing
from minrisk.samplers.hf.truncation import Candidates

_WARM_UP_RUNS = 2  # runs before a recording, in which libraries choose their kernels


@dataclass(frozen=True)
class _RecordedStep:
    """A CUDA graph with its inputs and outputs."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor  # (1 + 3 * rows,) a position, tokens, sources, rows by source
    candidates: Candidates


@dataclass(frozen=True)
class _GraphKey:
    """Key of a recording: rows, tokens that the cache holds, and logits processing."""

    rows: int
    capacity: int
    processing: LogitsProcessing


class CudaGraphs:
    """Recorded steps; rows are padded to a few numbers, so that few recordings are needed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._recorded: dict[_GraphKey, _RecordedStep] = {}
        self._pool = _pool()

    def clear(self, capacity: int | None = None) -> None:
        """Drops recordings whose cache, of one capacity or any, is no longer in use."""
        self._recorded = {key: recorded for key, recorded in self._recorded.items()
                          if capacity not in (None, key.capacity)}
        if not self._recorded:  # torch gives a pool up with the last graph in it
            self._pool = _pool()

    def step(self, tokens: Ints, position: int, source: Ints, cache: KVCache,
             processing: LogitsProcessing) -> Candidates:
        slots, capacity = cache.self_kv.shape[2], cache.self_kv.shape[4]
        key = _GraphKey(min(_padded_rows(len(tokens)), slots), capacity, processing)
        inputs = _padding_inputs(key, position)
        inputs[1 : 1 + len(tokens)] = tokens
        inputs[1 + key.rows : 1 + key.rows + len(tokens)] = source
        inputs[1 + 2 * key.rows : 1 + 2 * key.rows + len(tokens)] = source.argsort(kind="stable")
        if key not in self._recorded:
            self._recorded[key] = self._record(key, cache)
        recorded = self._recorded[key]
        recorded.inputs.copy_(pinned(inputs, cache.self_kv.device), non_blocking=True)
        recorded.graph.replay()
        return recorded.candidates

    def _record(self, key: _GraphKey, cache: KVCache) -> _RecordedStep:
        # at the last position, which a real step writes before anything reads it
        inputs = upload(_padding_inputs(key, key.capacity - 1), cache.self_kv.device)
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_RUNS):
                self._run(key, inputs, cache)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # other threads may score samples meanwhile
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            candidates = self._run(key, inputs, cache)
        return _RecordedStep(graph, inputs, candidates)

    def _run(self, key: _GraphKey, inputs: Tensor, cache: KVCache) -> Candidates:
        position, tokens, source, order = torch.split(inputs, [1, *[key.rows] * 3])
        logits = self._network.step(tokens, position,
                                    TritonAttention(cache, position, source, order))
        return key.processing(logits, _no_history)


def _pool() -> Any:
    """A memory pool for all graphs: the results of a step are used before the next one runs."""
    return torch.cuda.graph_pool_handle()


def _padding_inputs(key: _GraphKey, position: int) -> Ints:
    """A position, and padding rows, which attend to the first source."""
    inputs = np.zeros(1 + 3 * key.rows, np.intp)
    inputs[0] = position
    inputs[1 + 2 * key.rows :] = np.arange(key.rows)
    return inputs


def _no_history() -> Ints:
    raise AssertionError("logits processors that read histories are not recorded")


def _padded_rows(number: int) -> int:
    """Up to a power of four; 16 at least."""
    return int(max(16, 1 << 2 * -(-(number - 1).bit_length() // 2)))
