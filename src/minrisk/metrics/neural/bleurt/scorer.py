"""BLEURT-20: RemBERT with renamed weights, on [CLS] reference [SEP] hypothesis [SEP]."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._torch.device import Runtime
from minrisk._torch.loading import check_sizes, model_file, model_folder
from minrisk._torch.sentencepiece import SentencePiece
from minrisk._torch.tokens import pad_batch
from minrisk._torch.weights import (
    as_weights,
    load_weights,
    meta_build,
    read_pickle,
    read_safetensors,
)
from minrisk.metrics.neural.pairs import pair_scores

if TYPE_CHECKING:
    from minrisk.metrics.neural.bleurt import Bleurt

_RENAMED_PARTS = {"bleurt.": "rembert.", "embedding_projection": "embedding_hidden_mapping_in"}
_CONFIG_FIELDS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "intermediate_size", "hidden_act", "max_position_embeddings", "type_vocab_size",
          "layer_norm_eps")
_SPECIAL_TOKENS = 3  # [CLS] and two [SEP]
_PAD = 0


class BleurtScorer:
    """A BLEURT-20 model on its device."""

    def __init__(self, options: Bleurt) -> None:
        self._runtime = Runtime(options.device, options.dtype, options.tokens)
        folder = model_folder(options.model)
        self._tokenizer = SentencePiece(model_file(str(folder), "spm.model"))
        self._begin, self._end = (self._tokenizer.id(mark) for mark in ("[CLS]", "[SEP]"))
        model = _model(folder)
        self._max_text_tokens = model.config.max_position_embeddings - _SPECIAL_TOKENS
        self._model = model.to(self._runtime.device, self._runtime.dtype).eval()

    def scores(self, hyps: Sequence[str], refs: Sequence[str], source: str) -> Floats:
        """(H, R) scores of all pairs."""
        ids = cache(self._tokenizer.ids)

        def tokenize_pair(hyp: int, ref: int) -> tuple[Ints, bool]:
            return self._joined(ids(refs[ref]), ids(hyps[hyp]))

        return pair_scores(len(hyps), len(refs), tokenize_pair, self._score_batch, self._runtime)

    def _joined(self, ref: Ints, hyp: Ints) -> tuple[Ints, bool]:
        """The pair as one sequence, and whether it was truncated (the longer text first)."""
        kept = min(hyp.size, max(self._max_text_tokens // 2, self._max_text_tokens - ref.size))
        begin, end = np.array([self._begin]), np.array([self._end])
        joined = np.concatenate([begin, ref[: self._max_text_tokens - kept], end, hyp[:kept], end])
        return joined, ref.size + hyp.size > self._max_text_tokens

    def _score_batch(self, ids: Sequence[Ints]) -> Tensor:
        """(B,) scores."""
        tokens, mask = (part.to(self._runtime.device) for part in pad_batch(ids, _PAD))
        ends = tokens == self._end
        second = ((ends.cumsum(1) - ends.long()) > 0).long()  # tokens after the first [SEP]
        logits: Tensor = self._model(input_ids=tokens, attention_mask=mask,
                                     token_type_ids=second).logits
        return logits[:, 0]


def _model(folder: Path) -> Any:
    import transformers

    found = _read_config(folder)
    shape: dict[str, Any] = {name: found[name] for name in _CONFIG_FIELDS if name in found}
    shape |= {"input_embedding_size": found["embedding_size"], "num_labels": 1}
    build: Any = transformers.RemBertForSequenceClassification
    with meta_build(folder):
        config = transformers.RemBertConfig(**shape)
        check_sizes(config, folder)
        model = build(config)
    load_weights(model, _renamed(_weights(folder)), folder, "copy it again")
    return model


def _read_config(folder: Path) -> dict[str, Any]:
    path = model_file(str(folder), "config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: found invalid JSON: {error}") from None
    if not isinstance(config, dict) or config.get("model_type") != "bleurt":
        raise InputError(f"{path}: found no BLEURT; expected the model_type 'bleurt', as that of "
                         "lucadiliello/BLEURT-20-D12")
    if config.get("embedding_size") is None:
        raise InputError(f"{path}: found one of the first BLEURT models, which are BERTs for "
                         "English; expected BLEURT-20 or what was distilled from it, such as "
                         "lucadiliello/BLEURT-20-D3")
    return config


def _weights(folder: Path) -> Mapping[str, Tensor]:
    safe = folder / "model.safetensors"
    if not safe.is_file():
        path = model_file(str(folder), "pytorch_model.bin")
        return as_weights(read_pickle(path), path)
    return read_safetensors(safe)


def _renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed = {}
    for name, tensor in weights.items():
        for old, new in _RENAMED_PARTS.items():
            name = name.replace(old, new)
        renamed[name] = tensor
    return renamed
