"""Single-token steps of causal models, for many continuations that share their prompts.

The model's own forward pass runs; only its attention function is replaced during a step, by one
that behaves like the original in every other thread. All continuations of a prompt attend to a
single copy of its keys and values; the cache of a continuation holds only its new tokens.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import groupby
from typing import Any
from weakref import proxy

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, rms_norm
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from minrisk._torch.device import upload
from minrisk.samplers.hf.attention import Attention
from minrisk.samplers.hf.generic_decoder import (
    decoder_config,
    last_logits,
    last_logits_only,
    state_reasons,
)
from minrisk.samplers.hf.prefixes import TokenizedPrompt, padded_prefixes

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")
_ROPE_TYPES = (None, "default", "linear", "llama3", "yarn")  # others read positions on the host
_NAME = "minrisk_shared_prompt"
_current = threading.local()  # the attention of the current step in this thread
_lock = threading.RLock()  # held while a step replaces a model's attention function


def not_supported_reasons(model: Any) -> list[str]:
    """Reasons why a model needs a full cache for each continuation; none if it does not."""
    config = decoder_config(model)
    reasons = []
    if config.model_type not in FAMILIES:
        reasons.append(f"{config.model_type} is not one of {', '.join(FAMILIES)}")
    if not getattr(model, "_supports_attention_backend", False):
        reasons.append("its attention function cannot be replaced")
    if (getattr(config, "attn_logit_softcapping", None)
            and getattr(config, "_attn_implementation", None) == "sdpa"):
        reasons.append("its attention function, SDPA, leaves its soft-capping out")
    if _rope_types(config) - set(_ROPE_TYPES):
        reasons.append(f"its rotary embedding is {', '.join(map(str, _rope_types(config)))}")
    return reasons + state_reasons(model)


def window(model: Any) -> int | None:
    """The sliding window of its layers, if some of them have one."""
    config = decoder_config(model)
    if not getattr(config, "use_sliding_window", True):
        return None
    size = getattr(config, "sliding_window", None)
    return None if size is None else int(size)


def _rope_types(config: Any) -> set[Any]:
    given = (getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
             or {})
    nested = [own for own in given.values() if isinstance(own, dict)] or [given]
    return {own.get("rope_type", own.get("type")) for own in nested}


class CausalNetwork:
    def __init__(self, model: Any) -> None:
        config = decoder_config(model)
        self._model = proxy(model)  # weak, because the model's owner may hold this object
        self._last = last_logits_only(model)
        self.layers = config.num_hidden_layers
        heads = config.num_attention_heads
        self.heads = getattr(config, "num_key_value_heads", None) or heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // heads
        # transformers uses a 4-dimensional mask as it is, instead of building one
        self._no_mask = torch.empty(1, 1, 1, 1, device=model.device)
        self._norms = _fusible_norms(model)

    def encode(self, prompts: Sequence[TokenizedPrompt]) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values (layers, 2, S, heads, L, D) of the prompts, their lengths (S,), and the
        logits (S, V) of the next token. Prompts of the same length are adjacent, longest first.
        """
        lengths = [len(prompt.prefix) for prompt in prompts]
        parts = [self._encode([*alike]) for _, alike in
                 groupby(prompts, lambda prompt: len(prompt.prefix))]
        kv = torch.cat([pad(own, (0, 0, 0, lengths[0] - own.shape[4])) for own, _ in parts], 2)
        return (kv, upload(np.array(lengths, np.intp), kv.device),
                torch.cat([logits for _, logits in parts]))

    def _encode(self, prompts: Sequence[TokenizedPrompt]) -> tuple[Tensor, Tensor]:
        """The same of prompts of equal length, without padding, which could change a result."""
        tokens = upload(padded_prefixes(prompts), self._model.device)
        out = self._model(input_ids=tokens, use_cache=True, **self._last)
        kv = torch.stack([torch.stack([layer.keys, layer.values])
                          for layer in out.past_key_values.layers])
        return kv, last_logits(out.logits)

    def step(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """(R, V) logits after the tokens (R,) at these positions (R,)."""
        with self._attending_with(attention):
            out = self._model(input_ids=tokens[:, None], position_ids=positions[:, None],
                              attention_mask=self._no_mask, use_cache=False)
        return last_logits(out.logits)

    @contextmanager
    def _attending_with(self, attention: Attention) -> Iterator[None]:
        config = decoder_config(self._model)
        with _lock:
            before = config._attn_implementation
            config._attn_implementation, _current.attention = _registered(before), attention
            for norm in self._norms:
                norm.forward = partial(_step_norm, norm)
            try:
                yield
            finally:
                config._attn_implementation, _current.attention = before, None
                for norm in self._norms:
                    del norm.forward  # restores the method of the class


@cache
def _registered(original: str) -> str:
    """The name of an attention function that is ours during a step of the thread, else `original`.

    Other threads may run the model concurrently: beam search, other decoders, or user code.
    """
    name = f"{_NAME}_or_{original}"
    AttentionMaskInterface.register(name, partial(_mask, original))
    AttentionInterface.register(name, partial(_attend, original))
    return name


def _attend(original: str, module: Any, query: Tensor, key: Tensor, value: Tensor,
            attention_mask: Any, scaling: float | None = None, softcap: float | None = None,
            **more: Any) -> tuple[Tensor, Tensor | None]:
    """The attention function that transformers calls; in a step, queries, keys and values are those
    of the new tokens, (R, heads, 1, D).
    """
    attention = _current_attention()
    if attention is None:
        attend = ALL_ATTENTION_FUNCTIONS.get(original) or _eager(module)
        found: tuple[Tensor, Tensor | None] = attend(
            module, query, key, value, attention_mask, scaling=scaling, softcap=softcap, **more)
        return found
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = attention.shared_prompt_attention(
        module.layer_idx, query[:, :, 0], key[:, :, 0], value[:, :, 0], scale, softcap)
    return out[:, None], None


def _mask(original: str, **given: Any) -> Any:
    make = ALL_MASK_ATTENTION_FUNCTIONS.get(original)
    return None if make is None else make(**given)


def _eager(module: Any) -> Any:
    """The eager attention of the module's own file, which transformers does not register."""
    return sys.modules[type(module).__module__].eager_attention_forward


def _current_attention() -> Attention | None:
    return getattr(_current, "attention", None)


def _fusible_norms(model: Any) -> list[Any]:
    """RMS norms of a model on CUDA that one fused kernel can compute instead of six."""
    if model.device.type != "cuda":
        return []
    return [module for module in model.modules() if _is_rms_norm(module)]


@torch.inference_mode()
def _is_rms_norm(module: Any) -> bool:
    """Whether a module is a plain RMS norm with a weight, within rounding."""
    if not type(module).__name__.endswith("RMSNorm") or not hasattr(module, "variance_epsilon"):
        return False
    weight = module.weight
    given = torch.linspace(-2, 3, weight.numel(), device=weight.device, dtype=weight.dtype)[None]
    near = 2 * torch.finfo(weight.dtype).eps
    return torch.allclose(module(given), _fused_norm(module, given), rtol=near, atol=near)


def _step_norm(module: Any, hidden: Tensor) -> Tensor:
    if _current_attention() is None:  # called from another thread
        found: Tensor = type(module).forward(module, hidden)
        return found
    return _fused_norm(module, hidden)


def _fused_norm(module: Any, hidden: Tensor) -> Tensor:
    return rms_norm(hidden, module.weight.shape, module.weight, module.variance_epsilon)
