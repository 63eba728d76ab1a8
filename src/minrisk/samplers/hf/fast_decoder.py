"""The decoder for models whose rows share the KV cache of sources or prompts and of prefixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import proxy

import torch
from torch import Tensor

from minrisk._torch.device import triton_not_supported_reasons, upload
from minrisk.samplers.hf import native
from minrisk.samplers.hf.attention import (
    KVCache,
    NativeAttention,
    Network,
    TorchAttention,
    TritonAttention,
)
from minrisk.samplers.hf.bart import BartLike
from minrisk.samplers.hf.causal import CausalNetwork
from minrisk.samplers.hf.drawing import Draw, DrawnTokens, sample_room
from minrisk.samplers.hf.generic_decoder import token_bytes, vocabulary_size
from minrisk.samplers.hf.prefix_cache import PrefixCache
from minrisk.samplers.hf.prefixes import CacheNeeds, StepInput, TokenizedPrompt, padded_prefixes
from minrisk.samplers.hf.recorded_steps import RecordedSteps, padded_rows

_FIRST_SHARE = 1 / 16  # share of the memory up to which the cache is allocated for all steps
_FIRST_STEPS = 32  # steps for which a larger cache is allocated at first
_MAX_RECORDED_ROWS = 16384  # rows above which kernel launches are not the bottleneck
_RECORDED_SHARE = 1 / 32  # share of the memory for the logits of captured steps


class FastDecoder:
    """Shares the KV cache among rows, and captures repeated steps as CUDA graphs."""

    shares_prompts = True
    _prefixes: PrefixCache
    _rows: Tensor  # (2, R) the source or prompt of each row, and the position of its first token

    def __init__(self, model: Any) -> None:
        self._model = proxy(model)  # weak, so as not to keep the model alive
        self._network: Network = (BartLike(model) if model.config.is_encoder_decoder
                                  else CausalNetwork(model))
        self._model_state = _state(model)
        self._device = model.device
        is_fused = not triton_not_supported_reasons(self._device)
        self._graphs = RecordedSteps(self._network) if is_fused else None
        self._attention = (TorchAttention
                           if native.not_supported_reasons(self._device, model.dtype)
                           else NativeAttention)
        self.token_bytes = token_bytes(model)
        self._vocabulary = vocabulary_size(model)
        self._max_recorded_bytes = _RECORDED_SHARE * (
            torch.cuda.get_device_properties(self._device).total_memory
            if self._device.type == "cuda" else math.inf)

    def is_up_to_date(self) -> bool:
        """Whether the model still has the same device and weights."""
        return self._model_state == _state(self._model)

    def start(self, prompts: Sequence[TokenizedPrompt], needs: CacheNeeds, draw: Draw,
              inputs: Tensor) -> DrawnTokens:
        self._shared_kv, self._lengths, logits = self._network.encode(prompts)
        like = torch.empty(0, dtype=self._model.dtype, device=self._device)
        numbers = torch.arange(len(prompts), device=self._device)
        is_read = logits is not None  # whether the prefixes are in the shared cache
        starts = self._lengths if is_read else torch.zeros_like(numbers)
        self._rows = torch.stack([numbers, starts])
        prefix = upload(padded_prefixes(prompts), self._device)
        before = 0 if is_read else padded_rows(len(prompts)) * prefix.shape[1]
        self._prefixes = PrefixCache(self._network.layers, self._network.heads, self._network.size,
                                     like, before + self._first_slots(needs, draw))
        if logits is not None:
            return draw(logits, lambda: prefix, inputs)
        rows = torch.arange(padded_rows(len(prompts)), device=self._device).clamp(
            max=len(prompts) - 1)
        for column in prefix.T:
            step_input = StepInput(len(prompts), rows, column[rows], lambda: prefix)
            drawn = self.step(step_input, draw, inputs)
        return drawn

    def _first_slots(self, needs: CacheNeeds, draw: Draw) -> int:
        """Slots for all steps if that takes little memory, because growing takes time, and memory
        for the old cache, too.
        """
        rows = self._launched_rows(needs.samples, sample_room(needs.samples), draw)
        slots = rows * needs.steps
        if slots * self.token_bytes <= _FIRST_SHARE * needs.memory < math.inf:
            return slots
        return int(max(rows, min(slots, rows * _FIRST_STEPS, needs.memory / self.token_bytes)))

    def step(self, step_input: StepInput, draw: Draw, inputs: Tensor) -> DrawnTokens:
        graphs = self._graphs if self._is_recorded(step_input.rows, draw) else None
        rows = self._launched_rows(step_input.rows, len(step_input.parents), draw)
        parents, tokens = step_input.first(rows)
        self._prefixes.append(parents)
        self._rows = self._rows[:, parents]
        cache = KVCache(self._prefixes.kv, self._prefixes.paths, self._shared_kv, self._lengths)
        addresses = upload(cache.addresses(self._prefixes.length - 1), tokens.device)

        def launch() -> DrawnTokens:
            source, starts = self._rows
            attention = (self._attention(cache, self._prefixes.length, source)
                         if self._graphs is None else TritonAttention(addresses, source))
            logits = self._network.step(tokens, starts + addresses[-1:], attention)
            return draw(logits, step_input.history, inputs)

        if graphs is None:
            return launch()
        drawn = graphs.step(tokens, self._rows, addresses, draw, inputs)
        if draw.processing.truncation.is_complete:
            return drawn
        return replace(drawn, longer=lambda: _longer(launch()))

    def can_run_ahead(self, rows: int, samples: int, draw: Draw) -> bool:
        return self._is_recorded(samples, draw) and padded_rows(rows) == padded_rows(samples)

    def _launched_rows(self, rows: int, room: int, draw: Draw) -> int:
        """Rows of a step, including the padding of captured steps as far as there is room."""
        return min(padded_rows(rows), room) if self._is_recorded(rows, draw) else rows

    def _is_recorded(self, rows: int, draw: Draw) -> bool:
        if self._graphs is None or not draw.is_recordable or rows > _MAX_RECORDED_ROWS:
            return False
        bytes_per_row = self._vocabulary * draw.processing.truncation.bytes_per_logit(self._device)
        return rows * bytes_per_row <= self._max_recorded_bytes

    def release(self) -> None:
        for name in ("_prefixes", "_shared_kv", "_lengths", "_rows"):
            vars(self).pop(name, None)  # may be unset if `start` failed


def _longer(drawn: DrawnTokens) -> DrawnTokens:
    return drawn if drawn.longer is None else drawn.longer()


def _state(model: Any) -> tuple[object, ...]:
    """A value that changes with the model's device or weights; unique if torch tracks no versions.
    """
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    tables = [own.weight for own in ends if hasattr(own, "weight")]  # replaced layers have none
    changes = [getattr(own, "_version", object())
               for own in model.parameters() if not own.is_inference()]
    return model.device, model.dtype, *[own.data_ptr() for own in tables], *changes
