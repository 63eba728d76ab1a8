"""A sequence-classification model of transformers whose logit or probability is the reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, Wording, warn
from minrisk._core.process import report_progress
from minrisk._core.texts import valid_unicode
from minrisk._torch.device import Runtime
from minrisk._torch.loading import load_config, load_model, load_tokenizer
from minrisk._torch.tokens import length_batches, pad_batch, tokenizing

if TYPE_CHECKING:
    from minrisk.metrics.neural.reward import Reward

_UNLIMITED_TOKENS = 1_000_000  # tokenizers without a limit report more than this


@dataclass(frozen=True)
class _Input:
    """A source and a hypothesis as the model reads them."""

    ids: Ints
    types: Ints  # token types: 0 for the first text, 1 for the second, if the model has types
    is_cut: bool


class RewardClassifier:
    """A reward model on its device."""

    def __init__(self, options: Reward) -> None:
        from transformers import AutoModelForSequenceClassification

        self._runtime = Runtime(options.device, options.dtype, options.tokens)
        config = load_config(options.model)
        self._tokenizer = load_tokenizer(options.model)
        model = load_model(AutoModelForSequenceClassification, options.model, config)
        self._label = _label(config, options)
        self._has_chat = options.chat and bool(getattr(self._tokenizer, "chat_template", None))
        self._max_tokens = _max_tokens(config, self._tokenizer)
        self._pad: int | None = config.get_text_config().pad_token_id
        self._model = model.to(self._runtime.device, self._runtime.dtype)

    @torch.inference_mode()
    def quality(self, hyps: Sequence[str], source: str) -> Floats:
        """(H,) rewards, computed in batches of hypotheses of similar length."""
        inputs = [self._input(valid_unicode(source), valid_unicode(hyp)) for hyp in hyps]
        _check(inputs, self._max_tokens)
        result, done = np.zeros(len(hyps)), 0
        # without a padding token, a model reads the last token of each row: no batches
        budget = self._runtime.tokens if self._pad is not None else 1
        with self._runtime.inference():
            for rows in length_batches([own.ids.size for own in inputs], budget):
                rewards = self._rewards([inputs[row] for row in rows])
                result[rows] = rewards.float().cpu().numpy()
                done += len(rows)
                report_progress("hypotheses scored", done, len(hyps))
        return result

    def _rewards(self, inputs: Sequence[_Input]) -> Tensor:
        """(B,) rewards of a batch."""
        tokens, mask = pad_batch([own.ids for own in inputs], self._pad or 0)
        given = {"input_ids": tokens, "attention_mask": mask}
        if all(own.types.size for own in inputs):
            given["token_type_ids"] = pad_batch([own.types for own in inputs], 0)[0]
        logits = self._model(**{name: own.to(self._runtime.device)
                                for name, own in given.items()}).logits
        rewards: Tensor = (logits[:, 0] if self._label is None
                           else logits.float().softmax(dim=1)[:, self._label])
        return rewards

    def _input(self, source: str, hyp: str) -> _Input:
        if self._has_chat:
            ids = np.array(self._chat_ids(source, hyp))
            return _Input(ids[: self._max_tokens], np.zeros(0, np.int64),
                          ids.size > self._max_tokens)
        found = self._pair(source, hyp, truncation=False)
        is_cut = len(found["input_ids"]) > self._max_tokens
        if is_cut:  # truncate the longer text
            found = self._pair(source, hyp, truncation=True, max_length=self._max_tokens)
        return _Input(np.array(found["input_ids"], np.int64),
                      np.array(found.get("token_type_ids", ()), np.int64), is_cut)

    def _pair(self, source: str, hyp: str, **settings: Any) -> Any:
        with tokenizing():
            return self._tokenizer(source, hyp, verbose=False, **settings)

    def _chat_ids(self, source: str, hyp: str) -> list[int]:
        messages = [{"role": "user", "content": source}, {"role": "assistant", "content": hyp}]
        try:
            with tokenizing():
                found = self._tokenizer.apply_chat_template(messages, tokenize=True,
                                                            return_dict=True)
        except Exception as error:  # templates are programs and may raise anything
            raise InputError(Wording("the model's chat template does not take a source and an "
                                     "answer: {error}; set chat=False to pass them as a pair of "
                                     "texts",
                                     error=error)) from None
        ids: list[int] = found["input_ids"]
        return ids


def _check(inputs: Sequence[_Input], limit: int) -> None:
    if not all(own.ids.size for own in inputs):
        raise InputError("a source and its hypothesis have no token that the model knows; check "
                         "that the tokenizer belongs to the model")
    if long := sum(own.is_cut for own in inputs):
        warn(f"{long} of {len(inputs)} hypotheses with their source have more than {limit} tokens; "
             "the model ignores the rest")


def _label(config: Any, options: Reward) -> int | None:
    """The index of the label; None if the model has only one, whose logit is the reward."""
    names = {int(number): str(name) for number, name in config.id2label.items()}
    if options.label is None and len(names) == 1:
        return None
    found = [number for number, name in names.items() if name == options.label]
    if not found:
        given = "no label is given" if options.label is None else f"label is {options.label!r}"
        raise InputError(f"{options.model}: has the labels {', '.join(names.values())}, and "
                         f"{given}; set label to the one whose probability is the reward")
    return found[0] if len(names) > 1 else None


def _max_tokens(config: Any, tokenizer: Any) -> int:
    """The maximum number of tokens of an input."""
    limits = [getattr(config.get_text_config(), "max_position_embeddings", None),
              tokenizer.model_max_length]
    return int(min((limit for limit in limits if isinstance(limit, int) and limit > 0),
                   default=_UNLIMITED_TOKENS))
