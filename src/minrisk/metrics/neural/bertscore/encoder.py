"""Token embeddings from one layer of an encoder of transformers, and the weights of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, warn
from minrisk._core.process import report_progress
from minrisk._torch.device import Runtime
from minrisk._torch.loading import load_config, load_model, load_tokenizer
from minrisk._torch.tokens import length_batches, pad_batch, token_ids


@dataclass(frozen=True)
class TokenWeights:
    """The weight of each token id."""

    default: float
    by_token: Mapping[int, float]

    @classmethod
    def uniform(cls, special_ids: Iterable[int]) -> TokenWeights:
        """Weight 1 for all tokens except special ones, which have weight 0."""
        return cls(1.0, dict.fromkeys(special_ids, 0.0))

    @classmethod
    def idf(cls, texts: Sequence[Ints]) -> TokenWeights:
        """Inverse document frequencies; they are 0 for special tokens, which every text has."""
        counts = Counter(chain.from_iterable(np.unique(ids).tolist() for ids in texts))
        size = len(texts) + 1
        return cls(log(size), {token: log(size / (count + 1)) for token, count in counts.items()})

    def of(self, ids: Ints) -> Floats:
        """(L,) weights that sum to 1, or are all 0 if no token has a weight."""
        weights = np.array([self.by_token.get(token, self.default) for token in ids.tolist()])
        total = weights.sum()
        return weights / total if total > 0 else weights


# the layers that correlate best with human judgements, as in bert-score
_LAYERS = {
    "bert-base-uncased": 9, "bert-large-uncased": 18, "bert-base-multilingual-cased": 9,
    "bert-base-chinese": 8, "distilbert-base-multilingual-cased": 5, "roberta-base": 10,
    "roberta-large": 17, "roberta-large-mnli": 19, "xlm-roberta-base": 9, "xlm-roberta-large": 17,
    "deberta-large-mnli": 18, "deberta-xlarge-mnli": 40, "mdeberta-v3-base": 10,
    "deberta-v3-large": 12,
}
_PREFIX_SPACE_MODELS = ("roberta", "gpt2")  # model types whose tokens include a leading space


@dataclass(frozen=True)
class TokenEmbeddings:
    """The tokens of a text, and the normalised embedding of each."""

    ids: Ints  # (L,)
    vectors: Tensor  # (L, D)
    weights: TokenWeights | None = None  # weights of the segment, if they depend on it


class TokenEncoder:
    """An encoder up to one layer, and its tokenizer."""

    def __init__(self, model: str, layer: int | None, runtime: Runtime) -> None:
        from transformers import AutoModel

        config = load_config(model)
        self._tokenizer = _tokenizer(model, config.model_type in _PREFIX_SPACE_MODELS)
        self.layer = _layer(model, layer, getattr(config, "num_hidden_layers", 0))
        self._model = load_model(AutoModel, model, config)
        _drop_layers_above(self._model, max(self.layer, 1))  # some models need at least one layer
        self._model.to(runtime.device, runtime.dtype)
        special_ids = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        self.special_ids = [token for token in special_ids if token is not None]
        self._max_tokens = _max_tokens(self._tokenizer, config)
        self._runtime = runtime

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        ids = token_ids(self._tokenizer, [text.strip() for text in texts])
        long = sum(len(own) > self._max_tokens for own in ids)
        if long:
            warn(f"{long} of {len(ids)} texts have more than {self._max_tokens} tokens; BERTScore "
                 "ignores the rest")
        return [self._cut(np.array(own, dtype=np.intp)) for own in ids]

    def _cut(self, ids: Ints) -> Ints:
        if ids.size <= self._max_tokens:
            return ids
        return np.append(ids[: self._max_tokens - 1], ids[-1])

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        ids = self.tokenize(texts)
        found: dict[int, TokenEmbeddings] = {}
        with self._runtime.inference():
            for rows in length_batches([own.size for own in ids], self._runtime.tokens):
                vectors = self._vectors([ids[row] for row in rows])
                found |= {row: TokenEmbeddings(ids[row], own[: ids[row].size])
                          for row, own in zip(rows, vectors, strict=True)}
                report_progress("texts encoded", len(found), len(ids))
        return [found[row] for row in range(len(ids))]

    def _vectors(self, ids: Sequence[Ints]) -> Tensor:
        """(B, T, D) normalised embeddings, including padding."""
        pad = self._tokenizer.pad_token_id or 0  # arbitrary, because it is masked
        tokens, mask = (part.to(self._runtime.device) for part in pad_batch(ids, pad))
        states = self._model(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
        return functional.normalize(states.hidden_states[self.layer], dim=2)


def _tokenizer(model: str, spaced: bool) -> Any:
    from transformers import PreTrainedTokenizerFast

    if spaced:
        return load_tokenizer(model, add_prefix_space=True)
    try:  # uses tokenizer.json as it is; other classes may rebuild it with another normaliser
        return load_tokenizer(model, PreTrainedTokenizerFast)
    except InputError:  # there is no tokenizer.json
        return load_tokenizer(model)


def _layer(model: str, layer: int | None, count: int) -> int:
    chosen = _LAYERS.get(PurePath(model).name) if layer is None else layer
    if chosen is None:
        raise InputError(f"{model}: there is no default layer for this model; set the option "
                         f"`layer`, from 0 to {count}")
    if not 0 <= chosen <= count:
        raise InputError(f"{model}: layer {chosen} of {count}; choose from 0 to {count}")
    return chosen


def _drop_layers_above(model: Any, last: int) -> None:
    """Removes layers whose output is not used, if the layers are a plain list."""
    for part in model.children():
        if isinstance(getattr(part, "layer", None), torch.nn.ModuleList):
            # keep one for layer 0, which is its input
            part.layer = part.layer[: max(last, 1)]


def _max_tokens(tokenizer: Any, config: Any) -> int:
    """Maximum number of tokens of a text; RoBERTa leaves two of its positions unused."""
    positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    unused = 2 if config.model_type.endswith("roberta") else 0
    return int(min(tokenizer.model_max_length, positions - unused))
