"""MetricX: an mT5 whose first logit of a reserved token is the predicted error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._torch.device import Runtime
from minrisk._torch.loading import load_config, load_model, model_file
from minrisk._torch.sentencepiece import SentencePiece
from minrisk._torch.tokens import pad_batch
from minrisk.metrics.neural.pairs import pair_scores

if TYPE_CHECKING:
    from minrisk.metrics.neural.metricx import MetricX

_TEMPLATES = {"24": "source: {source} candidate: {hyp} reference: {ref}",
         "23": "candidate: {hyp} reference: {ref}"}
_QE_TEMPLATES = {"24": "source: {source} candidate: {hyp}",
                 "23": "candidate: {hyp} source: {source}"}
_MAX_TOKENS = {"24": 1536, "23": 1024}  # including the end-of-sequence token, which is removed
_SCORE_TOKEN = 250089  # the token <extra_id_10>
_MAX_ERROR = 25.0
_PAD = _START = 0


class MetricXScorer:
    """A MetricX model on its device."""

    def __init__(self, options: MetricX) -> None:
        from transformers import MT5ForConditionalGeneration

        self._runtime = Runtime(options.device, options.dtype, options.tokens)
        self._template = _TEMPLATES[options.version]
        self._qe_template = _QE_TEMPLATES[options.version]
        self._max_tokens = _MAX_TOKENS[options.version] - 1
        self._tokenizer = SentencePiece(model_file(options.tokenizer, "spiece.model"))
        config = load_config(options.model)
        if config.model_type != "mt5":
            raise InputError(f"{options.model}: found a model of the kind {config.model_type!r}; "
                             "expected MetricX, which has the model_type 'mt5'")
        model = load_model(MT5ForConditionalGeneration, options.model, config)
        words = len(model.lm_head.weight)
        if words <= _SCORE_TOKEN:
            raise InputError(f"{options.model}: found {words} tokens, expected MetricX, which has "
                             f"more than {_SCORE_TOKEN}")
        where = self._runtime.device, self._runtime.dtype
        # no logits of other tokens are needed
        self._head = model.lm_head.weight[_SCORE_TOKEN].detach().to(*where)
        self._encoder, self._decoder = model.encoder.to(*where), model.decoder.to(*where)

    def scores(self, hyps: Sequence[str], refs: Sequence[str], source: str) -> Floats:
        """(H, R) negated errors."""
        def tokenize_pair(hyp: int, ref: int) -> tuple[Ints, bool]:
            text = self._template.format(source=source, hyp=hyps[hyp], ref=refs[ref])
            return self._tokenize(text)

        return -pair_scores(len(hyps), len(refs), tokenize_pair, self._errors, self._runtime)

    def quality(self, hyps: Sequence[str], source: str) -> Floats:
        """(H,) negated errors from the source alone."""
        def tokenize_pair(hyp: int, _: int) -> tuple[Ints, bool]:
            return self._tokenize(self._qe_template.format(source=source, hyp=hyps[hyp]))

        return -pair_scores(len(hyps), 1, tokenize_pair, self._errors, self._runtime)[:, 0]

    def _tokenize(self, text: str) -> tuple[Ints, bool]:
        ids = self._tokenizer.ids(text)
        return ids[: self._max_tokens], ids.size > self._max_tokens

    def _errors(self, ids: Sequence[Ints]) -> Tensor:
        """(B,) predicted errors."""
        tokens, mask = (part.to(self._runtime.device) for part in pad_batch(ids, _PAD))
        states = self._encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        start = torch.full((len(ids), 1), _START, device=tokens.device)
        first = self._decoder(input_ids=start, encoder_hidden_states=states,
                              encoder_attention_mask=mask, use_cache=False).last_hidden_state[:, 0]
        errors: Tensor = first @ self._head
        return errors.clamp(0, _MAX_ERROR)
