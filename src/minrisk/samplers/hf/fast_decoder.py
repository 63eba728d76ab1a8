"""The decoder of models whose rows share sources or prompts: rows of the KV cache stay in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import proxy

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Ints
from minrisk._torch.cuda_graphs import next_power_of_two
from minrisk._torch.device import triton_not_supported_reasons, upload
from minrisk.samplers.hf.attention import (
    CopyRows,
    KVCache,
    Network,
    TorchAttention,
    TritonAttention,
    copy_rows_with_torch,
    copy_rows_with_triton,
)
from minrisk.samplers.hf.bart import BartLike
from minrisk.samplers.hf.causal import CausalNetwork
from minrisk.samplers.hf.generic_decoder import prefixes, token_bytes
from minrisk.samplers.hf.logits_processing import LogitsProcessing
from minrisk.samplers.hf.prefixes import StepInput, TokenizedPrompt
from minrisk.samplers.hf.recorded_steps import RecordedSteps, rows_by_source
from minrisk.samplers.hf.truncation import Candidates

MAX_RECORDED_ROWS = 2048  # of a step; with more, launching kernels is not the bottleneck
_MIN_BUFFER_TOKENS = 32  # capacities are this times a power of two


class FastDecoder:
    """Rows are slots of the KV cache; only those that are not their own parent are copied."""

    shares_prompts = True

    def __init__(self, model: Any) -> None:
        self._model = proxy(model)  # not to keep the model alive
        self._network: Network = (BartLike(model) if model.config.is_encoder_decoder
                                  else CausalNetwork(model))
        self._model_state = _state(model)
        is_fused = not triton_not_supported_reasons(model.device)
        self._graphs = RecordedSteps(self._network) if is_fused else None
        self._copy_rows: CopyRows = copy_rows_with_triton if is_fused else copy_rows_with_torch
        self.token_bytes = token_bytes(model)
        self._buffers: dict[int, Tensor] = {}  # by the tokens that they have room for
        nothing = torch.empty(0, 0, 0, 0, 0, 0)
        self._cache = KVCache(nothing, nothing, nothing)

    def is_up_to_date(self) -> bool:
        """Whether the model is where it was, and has the weights that it had."""
        return self._model_state == _state(self._model)

    def start(self, prompts: Sequence[TokenizedPrompt], samples: int,
              processing: LogitsProcessing) -> Candidates:
        shared_kv, lengths, logits = self._network.encode(prompts)
        written = len(prompts[0].prefix) if logits is None else 1
        self_kv = self._buffer(len(prompts), samples, written)
        self._cache = KVCache(self_kv, *self._sources(shared_kv, lengths))
        self._source = np.arange(len(prompts))
        self._length = 0
        prefix = prefixes(prompts)
        if logits is not None:
            return processing(logits, lambda: prefix)
        for column in prefix.T:
            candidates = self._run(column, processing, lambda: prefix)
        return candidates

    def step(self, step_input: StepInput, processing: LogitsProcessing) -> Candidates:
        rows = np.arange(len(step_input.parents))
        self._source = self._source[step_input.parents]
        self_kv = self._buffer(len(rows), step_input.samples, self._length + 1)
        if self_kv is self._cache.self_kv:
            self._copy(self_kv, rows[step_input.parents != rows], step_input.parents)
        else:
            self._copy(self_kv, rows, step_input.parents)
            self._cache = replace(self._cache, self_kv=self_kv)
        return self._run(step_input.tokens, processing, step_input.history)

    def _copy(self, self_kv: Tensor, rows: Ints, parents: Ints) -> None:
        """Copies the keys and values of the parents of some rows to these rows."""
        if len(rows):
            to, source = upload(np.stack([rows, parents[rows]]), self_kv.device)
            self._copy_rows(self._cache.self_kv, self_kv, source, to, self._length)

    def _run(self, tokens: Ints, processing: LogitsProcessing,
             history: Callable[[], Ints]) -> Candidates:
        position, cache = self._length, self._cache
        self._length += 1
        is_reused = self._buffers.get(cache.self_kv.shape[4]) is cache.self_kv
        if self._graphs is not None and is_reused and processing.is_recordable:
            return self._graphs.step(tokens, position, self._source, cache, processing)
        given = upload(np.concatenate([[position], tokens, self._source,
                                       rows_by_source(self._source)]), cache.self_kv.device)
        at, own, source, order = torch.split(given, [1, *[len(tokens)] * 3])
        attention = (self._torch_attention(at, source) if self._graphs is None
                     else TritonAttention(cache, at, source, order))
        return processing(self._network.step(own, at, attention), history)

    def _torch_attention(self, position: Tensor, source: Tensor) -> TorchAttention:
        ranks = _ranks(self._source)
        max_rows_per_source = int(ranks.max()) + 1
        places = upload(self._source * max_rows_per_source + ranks, position.device)
        return TorchAttention(self._cache, position, self._length, source, places,
                              max_rows_per_source)

    def _sources(self, cross_kv: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The cross-attention cache and source lengths; for CUDA graphs at a fixed address."""
        if self._graphs is None:
            return cross_kv, lengths
        layers, two, sources, heads, length, size = cross_kv.shape
        buffer, all_lengths = self._cache.cross_kv, self._cache.lengths
        if sources > buffer.shape[2] or length > buffer.shape[4]:
            count = max(buffer.shape[2], next_power_of_two(sources, 1))
            capacity = max(buffer.shape[4], next_power_of_two(length, _MIN_BUFFER_TOKENS))
            buffer = cross_kv.new_empty(layers, two, count, heads, capacity, size)
            all_lengths = lengths.new_empty(count)
            self._graphs.clear()
        buffer[:, :, :sources, :, :length] = cross_kv
        all_lengths[:sources] = lengths
        return buffer, all_lengths

    def _buffer(self, rows: int, samples: int, length: int) -> Tensor:
        """A self-attention cache for the rows.

        Small ones have a slot for every sample and are kept, since CUDA graphs refer to them. Sizes
        are powers of two, so that torch can reuse memory.
        """
        capacity, now = next_power_of_two(length, _MIN_BUFFER_TOKENS), self._cache.self_kv
        if samples > MAX_RECORDED_ROWS:
            if now.shape[4] == capacity and now.shape[2] >= rows:
                return now
            return self._zeros(next_power_of_two(rows, 2 * MAX_RECORDED_ROWS), capacity)
        if capacity not in self._buffers or self._buffers[capacity].shape[2] < samples:
            self._buffers[capacity] = self._zeros(next_power_of_two(samples, 64), capacity)
            if self._graphs is not None:
                self._graphs.clear(capacity)
        return self._buffers[capacity]

    def _zeros(self, slots: int, capacity: int) -> Tensor:
        """An empty cache, of zeros: padding rows must be finite."""
        network = self._network
        return torch.zeros(network.layers, 2, slots, network.heads, capacity, network.size,
                           dtype=self._model.dtype, device=self._model.device)


def _state(model: Any) -> tuple[object, ...]:
    weight = model.get_output_embeddings().weight
    changes = None if weight.is_inference() else weight._version
    return weight.device, weight.dtype, weight.data_ptr(), changes


def _ranks(source: Ints) -> Ints:
    """(R,) the number of each row among those of its source."""
    order = source.argsort(kind="stable")
    alike = source[order]
    ranks = np.empty_like(source)
    ranks[order] = np.arange(len(source)) - alike.searchsorted(alike)
    return ranks
