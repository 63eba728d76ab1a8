"""The loaded model of a `Transformers` sampler: prompts in, samples out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

from minrisk._core.arrays import finite_or_none
from minrisk._core.errors import InputError, Wording, warn
from minrisk._core.sampler import Prompt, Sample, TruncationCount
from minrisk._torch import onednn
from minrisk._torch.detokenizing import Detokenizer
from minrisk._torch.device import choose_device, choose_dtype
from minrisk._torch.int8 import int8_not_supported_reasons, replace_layers
from minrisk._torch.loading import load_config, load_model, load_tokenizer
from minrisk._torch.onednn import replace_linear_layers
from minrisk._torch.tokens import TokenIds
from minrisk.samplers.hf import bart, causal
from minrisk.samplers.hf.beam_search import beam_search
from minrisk.samplers.hf.engine import SampledSequence, SamplingEngine
from minrisk.samplers.hf.generic_decoder import decoder_config, vocabulary_size
from minrisk.samplers.hf.logits_processing import token_id_list
from minrisk.samplers.hf.prefixes import not_finite_error
from minrisk.samplers.hf.prompts import PromptEncoder
from minrisk.samplers.hf.stop_strings import StopStrings
from minrisk.samplers.hf.truncation import Truncation

if TYPE_CHECKING:
    from minrisk.samplers.hf import Transformers

_HINT = ("expected a folder with a model's files, or its name on the hub (owner/name); for a "
         "model on a server, give the server's address as endpoint")
_DEFAULT_MAX_TOKENS = 256  # used if neither the options nor the config set a limit
_UNSET_MAX_LENGTHS = (None, 20)  # values of `max_length` in a config that does not set it


class Generator:
    """Generates with a loaded model and the options of a `Transformers` sampler."""

    def __init__(self, options: Transformers, model: Any, tokenizer: Any) -> None:
        truncation = Truncation(options.temperature, options.top_k, options.top_p,
                                options.min_p, options.epsilon, options.eta)
        self._options = options
        self._model, self._tokenizer = model, tokenizer
        self._detokenize = Detokenizer(self._tokenizer)
        self._config: GenerationConfig = deepcopy(self._model.generation_config)
        limit = _limit(self._config, self._model) if options.max_tokens is None else (
            options.max_tokens)
        self._limit = self._within_positions(limit)
        self._prompts = PromptEncoder(options, self._model, self._tokenizer, self._limit)
        if options.min_tokens:
            self._config.min_new_tokens = options.min_tokens
        if self._prompts.forced_bos is not None:
            self._config.forced_bos_token_id = self._prompts.forced_bos
        self._ends = token_id_list(self._config.eos_token_id)
        self._truncation = TruncationCount()
        memory = None if options.memory is None else options.memory * 1e9
        self._stop = self._stop_strings()
        self._engine = SamplingEngine(self._model, self._config, truncation, self._limit,
                                      options.rows, memory, self._stop, options.window)

    @property
    def is_causal(self) -> bool:
        return not self._model.config.is_encoder_decoder

    def prompt_length(self, prompt: Prompt) -> int:
        """The number of tokens that the model reads."""
        [found] = self._prompts.of([prompt], [0])
        return len(found.source or found.prefix)

    def _stop_strings(self) -> StopStrings | None:
        """The stop strings of the options and of the generation config, removed from the config."""
        theirs, self._config.stop_strings = self._config.stop_strings or [], None
        texts = [*self._options.stop_strings, *([theirs] if isinstance(theirs, str) else theirs)]
        if texts and self._options.beams:
            raise InputError(f"the model stops at {texts[0]!r}, which beam search does not "
                             "support; sample, or remove stop_strings from its generation config")
        return (StopStrings(self._tokenizer, texts, vocabulary_size(self._model)) if texts
                else None)

    def generate(self, given: Sequence[Prompt], n: int, seed: int,
                 indices: Sequence[int]) -> list[list[Sample]]:
        options = self._options
        prompts = self._prompts.of(given, indices)
        if options.beams:
            sequences = beam_search(self._model, self._config, prompts, n, options.beams,
                                    self._limit)
            for own, index in zip(sequences, indices, strict=True):
                if any(math.isnan(one.logprob) for one in own):
                    raise not_finite_error(index)
        else:
            sequences = self._engine.sample(prompts, n, seed, indices)
        found = [self._samples(own) for own in sequences]
        if message := self._truncation.add(chain.from_iterable(found),
                                           Wording(f"max_tokens={self._limit}")):
            warn(message)
        return found

    def _samples(self, given: Sequence[SampledSequence]) -> list[Sample]:
        sequences = [*given]  # creates them once, because they are created on access
        texts = self._detokenize([one.ids for one in sequences])
        return [self._sample(text, one) for text, one in zip(texts, sequences, strict=True)]

    def _sample(self, text: str, sequence: SampledSequence) -> Sample:
        whole = text if self._stop is None else self._stop.cut(text)
        reason = "length" if whole == text and self._is_cut(sequence.ids) else "stop"
        return Sample(whole.strip(), sequence.count, sequence.logprob,
                      finite_or_none(sequence.truncated_logprob), sequence.tokens,
                      finish_reason=reason,
                      lowest_logprob=finite_or_none(sequence.lowest_logprob),
                      tail_logprob=finite_or_none(sequence.tail_logprob),
                      certainty=finite_or_none(sequence.certainty))

    def _is_cut(self, tokens: TokenIds) -> bool:
        """Whether it was truncated; an end token that was forced at the limit does not count."""
        forced = self._config.forced_eos_token_id is not None
        return len(tokens) >= self._limit and (forced or tokens[-1] not in self._ends)

    def _within_positions(self, limit: int) -> int:
        """The limit, bounded by the model's number of positions."""
        positions = getattr(decoder_config(self._model), "max_position_embeddings", None)
        if positions is None or limit < positions:
            return limit
        if self._options.max_tokens is not None:
            raise InputError(f"max_tokens {limit}; this model generates at most {positions - 1}")
        return int(positions - 1)


def load(name: str, device_name: str, dtype: str) -> tuple[Any, Any]:
    """The model, ready for inference, and its tokenizer."""
    device = choose_device(device_name, mps=False)
    config = load_config(name, _HINT)
    tokenizer = load_tokenizer(name)
    if not len(tokenizer):
        raise InputError(f"{name}: its tokenizer has no vocabulary; check that all of its files "
                         "are there")
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = load_model(kind, name, config, dtype=choose_dtype(dtype, device))
    model = model.to(device)
    _replace_linear_layers(model, dtype)
    return model, tokenizer


def _replace_linear_layers(model: Any, dtype: str) -> None:
    """Has oneDNN run the layers, in int8 if asked for, of models whose layers we know."""
    module = bart if model.config.is_encoder_decoder else causal
    reasons = module.not_supported_reasons(model)
    if dtype == "int8":
        reasons += int8_not_supported_reasons(model.device)
        if reasons:
            raise InputError(f"dtype 'int8' cannot be used: {' and '.join(reasons)}; choose "
                             "another one")
        replace_layers(model)
    elif not (reasons or onednn.not_supported_reasons(model.device, model.dtype)):
        replace_linear_layers(model, onednn.OneDnnLinear)


def _limit(config: GenerationConfig, model: Any) -> int:
    if config.max_new_tokens is not None:
        return int(config.max_new_tokens)
    if model.config.is_encoder_decoder and config.max_length not in _UNSET_MAX_LENGTHS:
        return int(config.max_length) - 1
    return _DEFAULT_MAX_TOKENS
