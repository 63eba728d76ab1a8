"""Greedy and beam search by transformers' `generate`, for baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig

from minrisk._core.errors import UnusableError
from minrisk.samplers.hf.engine import SampledSequence
from minrisk.samplers.hf.generic_decoder import pad_sources
from minrisk.samplers.hf.logits_processing import token_id_list
from minrisk.samplers.hf.prefixes import TokenizedPrompt

_BEAMS_PER_BATCH = 64


@torch.inference_mode()
def beam_search(model: Any, config: GenerationConfig, prompts: Sequence[TokenizedPrompt], n: int,
           beams: int, limit: int) -> list[Sequence[SampledSequence]]:
    """The n best beams of each prompt, best first."""
    found: list[Sequence[SampledSequence]] = [[] for _ in prompts]
    for rows in _batches(prompts, max(1, _BEAMS_PER_BATCH // beams)):
        batch = [prompts[row] for row in rows]
        sequences = _generate(model, config, batch, n, beams, limit)
        for row, own in zip(rows, sequences, strict=True):
            scores = _logprobs(model, prompts[row], own)
            found[row] = [SampledSequence(np.array(tokens, np.int32), 1, i, score)
                          for i, (tokens, score) in enumerate(zip(own, scores, strict=True))]
    return found


def _batches(prompts: Sequence[TokenizedPrompt], size: int) -> Iterator[list[int]]:
    """Batches of prefixes of equal length, which need no padding."""
    order = sorted(range(len(prompts)),
                   key=lambda row: (len(prompts[row].prefix), len(prompts[row].source)))
    for _, alike in groupby(order, key=lambda row: len(prompts[row].prefix)):
        rows = list(alike)
        yield from (rows[start : start + size] for start in range(0, len(rows), size))


def _generate(model: Any, config: GenerationConfig, batch: Sequence[TokenizedPrompt], n: int,
              beams: int, limit: int) -> list[list[tuple[int, ...]]]:
    start = len(batch[0].prefix)
    changed: Any = deepcopy(config)
    try:
        changed.update(num_beams=beams, num_return_sequences=n, do_sample=False,
                       max_new_tokens=None, max_length=start + limit,
                       return_dict_in_generate=False, temperature=None, top_k=None, top_p=None)
        out = model.generate(**_inputs(model, batch), generation_config=changed)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UnusableError(f"the model's generation config does not allow beam search: {error}; "
                            "remove these settings from it, or sample") from None
    ends = token_id_list(config.eos_token_id)
    texts = [_until_end(row, ends) for row in out[:, start:].tolist()]
    return [texts[i : i + n] for i in range(0, len(texts), n)]


def _inputs(model: Any, batch: Sequence[TokenizedPrompt]) -> dict[str, Tensor]:
    prefix = torch.tensor([prompt.prefix for prompt in batch], device=model.device)
    if not model.config.is_encoder_decoder:
        return {"input_ids": prefix, "attention_mask": torch.ones_like(prefix)}
    tokens, mask = pad_sources(model, [prompt.source for prompt in batch])
    return {"input_ids": tokens, "attention_mask": mask, "decoder_input_ids": prefix}


def _until_end(tokens: list[int], ends: list[int]) -> tuple[int, ...]:
    """The tokens without the padding after the end."""
    place = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[: place + 1])


def _logprobs(model: Any, prompt: TokenizedPrompt, texts: Sequence[tuple[int, ...]]) -> list[float]:
    """Log-probabilities of texts under the model itself."""
    return [_logprob(model, prompt, tokens) for tokens in texts]


def _logprob(model: Any, prompt: TokenizedPrompt, tokens: tuple[int, ...]) -> float:
    given = torch.tensor([[*prompt.prefix, *tokens[:-1]]], device=model.device)
    written = torch.tensor(tokens, device=model.device)
    if prompt.source:
        source, mask = pad_sources(model, [prompt.source])
        out = model(input_ids=source, attention_mask=mask, decoder_input_ids=given,
                    use_cache=False)
    else:
        out = model(input_ids=given, use_cache=False)
    logs: Tensor = out.logits[0, -len(tokens) :].float().log_softmax(-1)
    return float(logs.gather(1, written[:, None]).double().sum())
