"""Steps as CUDA graphs: rows are padded to a few numbers, so that few recordings are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Ints
from minrisk._torch.cuda_graphs import CudaGraphs
from minrisk.samplers.hf.attention import KVCache, Network, TritonAttention
from minrisk.samplers.hf.logits_processing import LogitsProcessing
from minrisk.samplers.hf.truncation import Candidates

_MAX_RECORDINGS = 256


@dataclass(frozen=True)
class _GraphKey:
    """Key of a recording: rows, tokens that the cache holds, and logits processing."""

    rows: int
    capacity: int
    processing: LogitsProcessing


class RecordedSteps:
    """The steps of a network; recordings refer to its caches."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._graphs: CudaGraphs[_GraphKey, Candidates] = CudaGraphs(_MAX_RECORDINGS)

    def clear(self, capacity: int | None = None) -> None:
        """Drops recordings whose cache, of one capacity or any, is no longer in use."""
        self._graphs.clear(lambda key: capacity in (None, key.capacity))

    def step(self, tokens: Ints, position: int, source: Ints, cache: KVCache,
             processing: LogitsProcessing) -> Candidates:
        slots, capacity = cache.self_kv.shape[2], cache.self_kv.shape[4]
        key = _GraphKey(min(_padded_rows(len(tokens)), slots), capacity, processing)
        inputs = _padding_inputs(key, position)
        inputs[1 : 1 + len(tokens)] = tokens
        inputs[1 + key.rows : 1 + key.rows + len(tokens)] = source
        inputs[1 + 2 * key.rows : 1 + 2 * key.rows + len(tokens)] = rows_by_source(source)

        def run(inputs: Tensor) -> Candidates:
            position, tokens, source, order = torch.split(inputs, [1, *[key.rows] * 3])
            logits = self._network.step(tokens, position,
                                        TritonAttention(cache, position, source, order))
            return processing(logits, _no_history)

        # recorded at the last position, which a real step writes before anything reads it
        return self._graphs.run(key, inputs, run, cache.self_kv.device,
                                example=_padding_inputs(key, capacity - 1))


def rows_by_source(source: Ints) -> Ints:
    """The rows of the first source, then those of the next; small numbers are sorted faster."""
    small = source.astype(np.uint16) if source.max(initial=0) < 1 << 16 else source
    return small.argsort(kind="stable")


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
