"""Decoders for any model of transformers, with its forward pass and its public KV cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from minrisk._torch.device import upload
from minrisk._torch.tokens import pad_batch
from minrisk.samplers.hf.drawing import Draw, DrawnTokens
from minrisk.samplers.hf.prefixes import CacheNeeds, StepInput, TokenizedPrompt, padded_prefixes


class CausalDecoder:
    """Decoder of causal models: a prompt is run once for all of its samples."""

    shares_prompts = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self._last = last_logits_only(model)
        self.token_bytes = token_bytes(model)
        self._cache: Any = None
        self._rows = 0

    def start(self, prompts: Sequence[TokenizedPrompt], needs: CacheNeeds, draw: Draw,
              inputs: Tensor) -> DrawnTokens:
        # prompts of equal length, so that padding cannot change a result
        prefix = upload(padded_prefixes(prompts), self._model.device)
        return draw(self._run(prefix, None), lambda: prefix, inputs)

    def step(self, step_input: StepInput, draw: Draw, inputs: Tensor) -> DrawnTokens:
        parents, tokens = step_input.first(step_input.rows)
        if rows_changed(parents, self._rows):
            self._cache.reorder_cache(parents)
        logits = self._run(tokens[:, None], self._cache)
        return draw(logits, step_input.history, inputs)

    def can_run_ahead(self, rows: int, samples: int, draw: Draw) -> bool:
        return False

    def release(self) -> None:
        self._cache = None

    def _run(self, tokens: Tensor, cache: Any) -> Tensor:
        out = self._model(input_ids=tokens, past_key_values=cache, use_cache=True, **self._last)
        self._cache, self._rows = out.past_key_values, len(tokens)
        return last_logits(out.logits)


class Seq2SeqDecoder:
    """Decoder of encoder-decoder models: a source is encoded once for all of its samples."""

    shares_prompts = False
    _cache: Any

    def __init__(self, model: Any) -> None:
        self._model = model
        self.token_bytes = token_bytes(model)

    def start(self, prompts: Sequence[TokenizedPrompt], needs: CacheNeeds, draw: Draw,
              inputs: Tensor) -> DrawnTokens:
        self._encoded, self._mask = encode(self._model, prompts)
        self._sources = torch.arange(len(prompts), device=self._model.device)
        prefix = upload(padded_prefixes(prompts), self._model.device)
        self._cache = None
        logits = self._run(prefix)
        self._cross_kv = [(layer.keys, layer.values)
                      for layer in self._cache.cross_attention_cache.layers]
        return draw(logits, lambda: prefix, inputs)

    def step(self, step_input: StepInput, draw: Draw, inputs: Tensor) -> DrawnTokens:
        parents, tokens = step_input.first(step_input.rows)
        if rows_changed(parents, len(self._sources)):
            self._sources = self._sources[parents]
            self._cache.self_attention_cache.reorder_cache(parents)
        layers = self._cache.cross_attention_cache.layers
        for layer, (keys, values) in zip(layers, self._cross_kv, strict=True):
            layer.keys, layer.values = self._per_prefix(keys), self._per_prefix(values)
        logits = self._run(tokens[:, None])
        return draw(logits, step_input.history, inputs)

    def can_run_ahead(self, rows: int, samples: int, draw: Draw) -> bool:
        return False

    def release(self) -> None:
        for name in ("_cache", "_cross_kv", "_encoded", "_mask"):
            vars(self).pop(name, None)  # there may be none, if the start failed

    def _run(self, tokens: Tensor) -> Tensor:
        output: Any = BaseModelOutput  # its annotations are stricter than its behaviour
        out = self._model(
            encoder_outputs=output(last_hidden_state=self._per_prefix(self._encoded)),
            attention_mask=self._per_prefix(self._mask), decoder_input_ids=tokens,
            past_key_values=self._cache, use_cache=True)
        self._cache = out.past_key_values
        assert isinstance(self._cache, EncoderDecoderCache)
        return last_logits(out.logits)

    def _per_prefix(self, per_source: Tensor) -> Tensor:
        """One row per prefix; a single source is expanded as a view, without a copy."""
        if len(per_source) == 1:
            return per_source.expand(len(self._sources), *per_source.shape[1:])
        return per_source[self._sources]


def rows_changed(parents: Tensor, rows: int) -> bool:
    """Whether rows were added or removed, so that the cache must be reordered."""
    return not torch.equal(parents, torch.arange(rows, device=parents.device))


def state_reasons(model: Any) -> list[str]:
    """Reasons, in the state of any model, that require its own forward pass."""
    reasons = []
    if getattr(model, "hf_device_map", None):
        reasons.append("the model is spread over several devices")
    if model.training:
        reasons.append("the model is being trained")
    return reasons


def encode(model: Any, prompts: Sequence[TokenizedPrompt]) -> tuple[Tensor, Tensor]:
    """(S, L, D) encoder states of the sources, and a mask (S, L) that is 0 for padding."""
    tokens, mask = pad_sources(model, [prompt.source for prompt in prompts])
    out = model.get_encoder()(input_ids=tokens, attention_mask=mask, return_dict=True)
    return out.last_hidden_state, mask


def pad_sources(model: Any, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """(S, L) padded tokens, and a mask that is 0 for padding, on the model's device."""
    tokens, mask = pad_batch([np.array(own, np.intp) for own in sources],
                             model.config.pad_token_id or 0)
    return tokens.to(model.device), mask.to(model.device)


def last_logits(logits: Tensor) -> Tensor:
    """(R, V) logits of the last token, in memory that may be modified."""
    return logits[:, -1].clone() if logits.shape[1] > 1 else logits[:, -1]


def last_logits_only(model: Any) -> dict[str, int]:
    """Arguments that limit logits to the last token, if the model supports that."""
    known = inspect.signature(model.forward).parameters
    return {"logits_to_keep": 1} if "logits_to_keep" in known else {}


def decoder_config(model: Any) -> Any:
    """The configuration of the decoder."""
    return model.config if model.config.is_encoder_decoder else model.config.get_text_config()


def vocabulary_size(model: Any) -> int:
    """The number of logits for each token."""
    head = model.get_output_embeddings()
    size: int = getattr(head, "out_features", None) or head.weight.shape[0]
    return size


def token_bytes(model: Any) -> int:
    """Bytes of the KV cache per token, over all layers."""
    config = decoder_config(model)
    layers = getattr(config, "decoder_layers", None) or config.num_hidden_layers
    heads = getattr(config, "decoder_attention_heads", None) or config.num_attention_heads
    size = (getattr(config, "head_dim", None) or getattr(config, "d_kv", None)
            or config.hidden_size // heads)
    shared = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * layers * shared * size * model.dtype.itemsize)
