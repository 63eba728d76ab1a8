"""Logits processing of a generation config: tokens that are banned, forced or penalised.

Single banned tokens, always or at the start, are masked in place; everything else is left to
transformers' own processors, which get each prefix as `generate` would pass it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

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
from minrisk.samplers.hf.truncation import ALL_TOKENS, Candidates, Truncation, self_certainty

_ROWS_PER_PART = 96  # whose logits are computed at a time: many more need new memory each time
# settings that need more than the prefix, and the values that disable them
_UNSUPPORTED_SETTINGS: dict[str, tuple[object, ...]] = {
    "guidance_scale": (None, 1, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "watermarking_config": (None,),
    "stop_strings": (None,),
    "max_time": (None,),
}

_OF_OCCURRENCE = (RepetitionPenaltyLogitsProcessor, InfNanRemoveLogitsProcessor)


@dataclass(frozen=True)
class ProjectedLogits:
    """Logits (R, V) that are computed when they are needed: on a CPU, those of some rows at a time
    stay in its cache.
    """

    hidden: Tensor  # (R, D)
    project: Callable[[Tensor], Tensor]

    @property
    def device(self) -> torch.device:
        return self.hidden.device

    def whole(self) -> Tensor:
        return self.project(self.hidden)

    def parts(self) -> Iterator[Tensor]:
        parts = self.hidden.tensor_split(-(-len(self.hidden) // _ROWS_PER_PART))  # of equal sizes
        return map(self.project, parts)


Logits: TypeAlias = "Tensor | ProjectedLogits"


@dataclass(frozen=True)
class LogitsProcessing:
    """Turns the logits of a step into candidates to sample from.

    Recordable objects are equal if they compute the same.
    """

    banned: tuple[int, ...]  # token ids
    banned_on_device: Tensor = field(compare=False)  # the same on the device
    processors: Any = field(compare=False)  # LogitsProcessorList; its annotations are too strict
    truncation: Truncation

    @property
    def is_recordable(self) -> bool:
        """Whether a CUDA graph can capture it: the same at every step, entirely on the device."""
        return not self.processors

    def __call__(self, logits: Logits, history: Callable[[], Tensor]) -> tuple[Candidates, Tensor]:
        """Candidates from logits (R, V), which are modified in place, and the self-certainty (R,)
        of the model itself; `history` is (R, T).
        """
        if self.is_recordable and self.truncation.uses_likely_kernel(logits.device):
            if isinstance(logits, Tensor):
                known = self._without_banned(logits)
                return self.truncation.likely([known], lambda: self._longest(known, history))
            return self.truncation.likely(
                map(self._without_banned, logits.parts()),
                lambda: self._longest(self._without_banned(logits.whole()), history))
        if not isinstance(logits, Tensor):
            logits = logits.whole()
        mean = logits.mean(1, dtype=torch.float32)
        logits, banned, _ = self._without_banned(logits)
        found, whole = self._candidates(logits, banned, history)
        return found, self_certainty(whole[:, 0], mean, logits.shape[1])

    def _longest(self, known: tuple[Tensor, Tensor, Tensor],
                 history: Callable[[], Tensor]) -> Candidates:
        """All candidates, from what `_without_banned` returns."""
        return self._candidates(known[0], known[1], history, ALL_TOKENS)[0]

    def _candidates(self, logits: Tensor, banned: Tensor, history: Callable[[], Tensor],
                    width: int | None = None) -> tuple[Candidates, Tensor]:
        """Candidates from the logits without banned tokens, and the logsumexp (R, 1) of all."""
        scores = logs = logits.log_softmax(1, dtype=torch.float32)
        known = logits[:1].argmax(1)  # a token with a finite logit
        total = logits[:, known].float() - logs[:, known]
        if self.processors:
            scores = self.processors(history(), logits.float()).log_softmax(1)
        whole = torch.logaddexp(total, banned)
        return self.truncation(scores, logs, total - whole, width), whole

    def _without_banned(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The logits, in which those of banned tokens become -inf in place, and the logsumexp
        (R, 1) and the logits (R, B) of those.
        """
        banned = logits[:, self.banned_on_device].float()
        logits.index_fill_(1, self.banned_on_device, -math.inf)
        # logsumexp of one logit is the logit, without seven kernels
        total = banned if len(self.banned) == 1 else banned.logsumexp(1, keepdim=True)
        return logits, total, banned


@dataclass(frozen=True)
class GenerationSettings:
    """The end-of-sequence tokens, and the logits processing of each step."""

    ends: tuple[int, ...]  # end-of-sequence token ids
    ends_on_device: Tensor  # the same on the device
    start: int  # length of the prefix
    limit: int  # maximum tokens of a sample
    _min_tokens: int  # tokens before a sample may end
    _before_and_after: tuple[LogitsProcessing, LogitsProcessing]  # before and from `_min_tokens`
    _at_one_step: dict[int, list[LogitsProcessor]]
    stop: StopStrings | None = None  # strings that end a sample

    @classmethod
    def of(cls, config: GenerationConfig, start: int, limit: int, device: torch.device,
           truncation: Truncation, stop: StopStrings | None = None) -> GenerationSettings:
        """The settings for sequences with a prefix of `start` tokens."""
        refused = [name for name, off in _UNSUPPORTED_SETTINGS.items()
                   if getattr(config, name, None) not in off]
        if refused:
            raise InputError(f"the generation config sets {', '.join(refused)}, which sampling "
                             "with shared prefixes does not support; remove it, or use `generate`")
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
    """A list of token ids from a config value: None, one id or several."""
    if given is None:
        return []
    return [given] if isinstance(given, int) else [int(token) for token in given]


def _bad_tokens(config: GenerationConfig) -> Iterator[int]:
    for word in config.bad_words_ids or ():
        if len(word) == 1 and word != token_id_list(config.eos_token_id):
            yield word[0]


def needs_equal_lengths(config: Any) -> bool:
    """Whether the processing of logits depends on the length of a prefix or on the order of its
    tokens, and not only on which tokens occur; padding by a token of the prefix changes both.
    """
    return bool(config.min_length or _at_one_step(config, 1, 0, None) or any(
        not isinstance(own, _OF_OCCURRENCE) for own in _processors(config, [0], 1)))


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
    """Processors that act at a single step, after all others."""
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
