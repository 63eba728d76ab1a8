"""Logits processing that a generation config asks for: tokens banned, forced or penalised.

Single tokens that are banned, always or at the start, are masked in place; everything else is done
by transformers' own processors, which get each prefix as `generate` would pass it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers import (
    ExponentialDecayLengthPenalty,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    GenerationConfig,
    InfNanRemoveLogitsProcessor,
    LogitsProcessor,
    LogitsProcessorList,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
)

from minrisk._core.errors import InputError
from minrisk.samplers.hf.stop_strings import StopStrings
from minrisk.samplers.hf.truncation import Candidates, Truncation

# settings that need more than a prefix, and their values when they are off
_UNSUPPORTED_SETTINGS: dict[str, tuple[object, ...]] = {
    "guidance_scale": (None, 1, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "watermarking_config": (None,),
    "stop_strings": (None,),
    "max_time": (None,),
}


@dataclass(frozen=True)
class LogitsProcessing:
    """Turns the logits of a step into candidates: tokens to sample from, with log-probabilities.

    Two recordable objects are equal if they do the same.
    """

    banned: tuple[int, ...]  # token ids
    banned_on_device: Tensor = field(compare=False)  # the same on the device
    processors: Any = field(compare=False)  # a LogitsProcessorList, which takes more than it says
    truncation: Truncation

    @property
    def is_recordable(self) -> bool:
        """Whether it does the same at every step, on the device alone."""
        return not self.processors

    def __call__(self, logits: Tensor, history: Callable[[], Tensor]) -> Candidates:
        """Candidates by logits (R, V), which are changed in place; `history` is (R, T)."""
        banned = logits[:, self.banned_on_device].float()
        if len(self.banned) != 1:  # it is the logit itself, and saves seven kernels
            banned = banned.logsumexp(1, keepdim=True)
        logits.index_fill_(1, self.banned_on_device, -math.inf)
        if self.is_recordable and self.truncation.uses_likely_kernel(logits.device):
            return self.truncation.likely(logits, banned)
        scores = logs = logits.log_softmax(1, dtype=torch.float32)
        known = logits[:1].argmax(1)  # a token that the model does not rule out
        total = logits[:, known].float() - logs[:, known]
        if self.processors:
            scores = self.processors(history(), logits.float()).log_softmax(1)
        return self.truncation(scores, logs, total - torch.logaddexp(total, banned))


@dataclass(frozen=True)
class GenerationSettings:
    """The end of texts, and the logits processing of each step."""

    ends: tuple[int, ...]  # token ids that end a text
    ends_on_device: Tensor  # the same
    start: int  # tokens of a text that are given
    limit: int  # tokens of a sample
    _min_tokens: int  # tokens before a text may end
    _before_and_after: tuple[LogitsProcessing, LogitsProcessing]  # before that, and from there on
    _at_one_step: dict[int, list[LogitsProcessor]]
    stop: StopStrings | None = None  # texts that end a text

    @classmethod
    def of(cls, config: GenerationConfig, start: int, limit: int, device: torch.device,
           truncation: Truncation, stop: StopStrings | None = None) -> GenerationSettings:
        """For texts of which `start` tokens are given."""
        refused = [name for name, off in _UNSUPPORTED_SETTINGS.items()
                   if getattr(config, name, None) not in off]
        if refused:
            raise InputError(f"the generation config sets {', '.join(refused)}, which sampling by "
                             "shared prefixes does not support; unset it, or use `generate`")
        ends = token_id_list(config.eos_token_id)
        banned = {*_bad_tokens(config), *(config.suppress_tokens or ())} - {-1}
        least = max((config.min_length or 0) - start, config.min_new_tokens or 0)
        processors = LogitsProcessorList(_processors(config, ends, start))
        before, after = (
            LogitsProcessing(tokens, torch.tensor(tokens, dtype=torch.long, device=device),
                             processors, truncation)
            for tokens in map(_sorted, (banned.union(ends), banned)))
        return cls(tuple(ends), torch.tensor(ends, dtype=torch.long, device=device), start, limit,
                   least, (before, after), _at_one_step(config, start, limit, device), stop)

    def at(self, step: int) -> LogitsProcessing:
        """The processing of the logits of a step."""
        processing = self._before_and_after[step >= self._min_tokens]
        more = self._at_one_step.get(step)
        if more is None:
            return processing
        return replace(processing, processors=LogitsProcessorList([*processing.processors, *more]))


def _sorted(tokens: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(tokens))


def token_id_list(given: int | Iterable[int] | None) -> list[int]:
    """Token ids, of which a config may name none, one or several."""
    if given is None:
        return []
    return [given] if isinstance(given, int) else [int(token) for token in given]


def _bad_tokens(config: GenerationConfig) -> Iterator[int]:
    for word in config.bad_words_ids or ():
        if len(word) == 1 and word != token_id_list(config.eos_token_id):
            yield word[0]


def _processors(config: Any, ends: list[int], start: int) -> Iterator[LogitsProcessor]:
    """Processors that need each prefix, in the order in which transformers applies them."""
    if config.sequence_bias is not None:
        yield SequenceBiasLogitsProcessor(config.sequence_bias)
    if config.repetition_penalty not in (None, 1.0):
        yield RepetitionPenaltyLogitsProcessor(config.repetition_penalty)
    if config.no_repeat_ngram_size:
        yield NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size)
    long = [word for word in config.bad_words_ids or () if len(word) > 1]
    if long:
        yield NoBadWordsLogitsProcessor(long, ends)
    if config.remove_invalid_values:
        yield InfNanRemoveLogitsProcessor()
    if config.exponential_decay_length_penalty is not None:
        yield ExponentialDecayLengthPenalty(config.exponential_decay_length_penalty, ends, start)


def _at_one_step(config: Any, start: int, limit: int, device: Any
                 ) -> dict[int, list[LogitsProcessor]]:
    """Processors that act at one step only, after all others."""
    found: dict[int, list[LogitsProcessor]] = {}
    begins = start == 1 and config.forced_bos_token_id is not None
    if begins:
        found[0] = [ForcedBOSTokenLogitsProcessor(config.forced_bos_token_id)]
    if config.forced_eos_token_id is not None:
        found.setdefault(limit - 1, []).append(ForcedEOSTokenLogitsProcessor(
            start + limit, config.forced_eos_token_id, device=device))
    if config.begin_suppress_tokens is not None:
        found.setdefault(int(begins), []).append(SuppressTokensAtBeginLogitsProcessor(
            config.begin_suppress_tokens, start + begins, device=device))
    return found
