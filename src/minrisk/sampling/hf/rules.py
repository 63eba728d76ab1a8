"""What a generation config asks for besides sampling: tokens that are banned, forced or punished.

Single tokens that may never be written are taken out in place; everything else is done by
transformers' own processors, which see each prefix as `generate` would show it to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
)

from minrisk.errors import InputError

# settings that need more than a prefix to decide, and what they are when they are off
_FOREIGN: dict[str, tuple[object, ...]] = {
    "guidance_scale": (None, 1, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "watermarking_config": (None,),
    "stop_strings": (None,),
    "max_time": (None,),
}


@dataclass(frozen=True)
class Rules:
    banned: Tensor  # token ids
    processors: Any  # a LogitsProcessorList, whose types are stricter than what it takes
    ends: Tensor  # token ids that end a text
    start: int  # tokens before the first that is drawn
    limit: int  # tokens that may be drawn

    @classmethod
    def of(cls, config: GenerationConfig, start: int, limit: int, device: torch.device) -> Rules:
        refused = [name for name, off in _FOREIGN.items() if getattr(config, name, None) not in off]
        if refused:
            raise InputError(f"the generation config sets {', '.join(refused)}, which sampling by "
                             "shared prefixes does not know; unset it, or sample with `generate`")
        ends = ids(config.eos_token_id)
        banned = sorted({*_bad_tokens(config), *(config.suppress_tokens or ())} - {-1})
        processors = LogitsProcessorList(_processors(config, ends, start, limit, device))
        return cls(torch.tensor(banned, dtype=torch.long, device=device), processors,
                   torch.tensor(ends, dtype=torch.long, device=device), start, limit)

    def __call__(self, history: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores (R, V) that keep the rules, and the logarithms of two sums: theirs, the model's.

        Takes banned tokens out of the logits in place; the others keep their values.
        """
        lost = logits[:, self.banned].logsumexp(1)
        logits.index_fill_(1, self.banned, -math.inf)
        total = logits.logsumexp(1)
        whole = torch.logaddexp(total, lost)
        scores = self.processors(history, logits) if self.processors else logits
        return scores, total if scores is logits else scores.logsumexp(1), whole


def ids(given: int | Iterable[int] | None) -> list[int]:
    """Token ids, of which a config may name none, one or several."""
    if given is None:
        return []
    return [given] if isinstance(given, int) else [int(token) for token in given]


def _bad_tokens(config: GenerationConfig) -> Iterator[int]:
    for word in config.bad_words_ids or ():
        if len(word) == 1 and word != ids(config.eos_token_id):
            yield word[0]


def _processors(config: Any, ends: list[int], start: int, limit: int, device: Any
                ) -> Iterator[LogitsProcessor]:
    """In the order in which transformers applies them."""
    if config.sequence_bias is not None:
        yield SequenceBiasLogitsProcessor(config.sequence_bias)
    if config.repetition_penalty not in (None, 1.0):
        yield RepetitionPenaltyLogitsProcessor(config.repetition_penalty)
    if config.no_repeat_ngram_size:
        yield NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size)
    long = [word for word in config.bad_words_ids or () if len(word) > 1]
    if long:
        yield NoBadWordsLogitsProcessor(long, ends)
    if config.min_length and ends:
        yield MinLengthLogitsProcessor(config.min_length, ends, device=device)
    if config.min_new_tokens and ends:
        yield MinNewTokensLengthLogitsProcessor(start, config.min_new_tokens, ends, device=device)
    if config.forced_bos_token_id is not None:
        yield ForcedBOSTokenLogitsProcessor(config.forced_bos_token_id)
    if config.forced_eos_token_id is not None:
        yield ForcedEOSTokenLogitsProcessor(start + limit, config.forced_eos_token_id,
                                            device=device)
    if config.remove_invalid_values:
        yield InfNanRemoveLogitsProcessor()
    if config.exponential_decay_length_penalty is not None:
        yield ExponentialDecayLengthPenalty(config.exponential_decay_length_penalty, ends, start)
    if config.begin_suppress_tokens is not None:
        forced = start == 1 and config.forced_bos_token_id is not None
        yield SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, start + forced,
                                                   device=device)
