"""Sentence embeddings by the encoders of COMET models, in batches of similar length."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minrisk._core.arrays import Ints
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.process import report_progress
from minrisk._torch.device import upload
from minrisk._torch.loading import load_config, load_tokenizer, model_file
from minrisk._torch.tokens import length_batches, pad_batch, token_ids
from minrisk._torch.weights import load_weights, meta_build
from minrisk.metrics.comet.checkpoint import Architecture, Checkpoint
from minrisk.metrics.comet.packed import PackedEncoder, packed_batches
from minrisk.metrics.comet.pooling import Pooling, PoolingAccumulator, accumulator, layer_weights

# encoder type -> class in transformers, and its settings
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "XLM-RoBERTa": ("XLMRobertaModel", {"add_pooling_layer": False}),
    "XLM-RoBERTa-XL": ("XLMRobertaXLModel", {"add_pooling_layer": False}),
    "MiniLM": ("BertModel", {}),
    "BERT": ("BertModel", {"add_pooling_layer": False}),
    "RemBERT": ("RemBertModel", {}),
    "DeBERTa": ("DebertaV2Model", {}),
}
_TOKENIZERS = {"MiniLM": "xlm-roberta-base"}  # other encoders use their own tokenizer
_PREFIX = "encoder.model."

StateObserver = Callable[[Tensor], None]  # is called with the hidden states of a module


@dataclass(frozen=True)
class CometEncoder:
    """A transformer, its tokenizer, and how its layers are pooled to one embedding."""

    model: nn.Module
    tokenizer: Any
    max_tokens: int  # tokens after which texts are truncated
    pool: Pooling
    layer_norm: bool
    mix: Mapping[int, float]  # layer -> weight of its hidden states, if not 0
    layer_modules: Mapping[int, nn.Module]  # layer -> module whose output its hidden states are
    word_module: nn.Module | None = None  # module whose output is tagged
    packed: PackedEncoder | None = None  # runs the model without padding, if supported

    @classmethod
    def of(cls, checkpoint: Checkpoint, files: str | None,
           word_layer: int | None = None) -> CometEncoder:
        architecture = checkpoint.architecture
        if architecture.encoder_model not in _MODELS:
            raise InputError(f"{checkpoint.folder}: encoder {architecture.encoder_model!r} is not "
                             f"known; known: {', '.join(_MODELS)}")
        config, tokenizer = encoder_files(checkpoint, files)
        model = _build(architecture, config, checkpoint)
        _fill(model, checkpoint)
        count = len(model.encoder.layer) + 1
        mix = _layer_mix(checkpoint, count)
        layer_modules = {layer: _layer_module(model, layer) for layer in mix}
        word_module = (None if word_layer is None
                       else _layer_module(model, _layer(word_layer, count, checkpoint)))
        _drop_layers_above(model, max([*mix, word_layer or 0]))
        max_tokens = config.max_position_embeddings - 4  # as in the official code
        layer_norm = architecture.layer_norm and architecture.layer == "mix"
        return cls(model.eval(), tokenizer, max_tokens, architecture.pool, layer_norm, mix,
                   layer_modules, word_module)

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        ids = token_ids(self.tokenizer, texts)
        ends = np.cumsum([len(own) for own in ids], dtype=np.intp)
        flat = np.fromiter(chain.from_iterable(ids), np.intp)  # faster than one array per text
        return [flat[end - len(own) : end] for own, end in zip(ids, ends.tolist(), strict=True)]

    def cut(self, ids: Ints) -> Ints:
        """Truncate to the model's limit, keeping the end-of-sequence token."""
        if ids.size <= self.max_tokens:
            return ids
        return np.append(ids[: self.max_tokens - 1], ids[-1])

    def encode(self, ids: Sequence[Ints], budget: int) -> Tensor:
        """(N, D) in input order; batches have about `budget` tokens, including padding."""
        if not ids:
            return torch.empty(0, 0)
        batches = packed_batches if self._is_packable(ids) else length_batches
        parts, order = [], []
        for rows in batches([own.size for own in ids], budget):
            parts.append(self.embed([ids[r] for r in rows]))
            order += rows
            report_progress("texts encoded", len(order), len(ids))
        # an asynchronous upload, because the device may still be encoding
        return torch.cat(parts)[upload(np.argsort(order), parts[0].device)]

    def embed(self, ids: Sequence[Ints]) -> Tensor:
        """(B, D) sentence embeddings."""
        if self.packed is not None and self._is_packable(ids):
            return self.packed.embed(ids)
        return self._run(ids, [])

    def _is_packable(self, ids: Sequence[Ints]) -> bool:
        """Whether texts can be packed. A text that contains the padding token cannot: only the
        model itself handles its position and pooling.
        """
        pad = self.tokenizer.pad_token_id
        return self.packed is not None and not np.any(np.concatenate(ids) == pad)

    def embed_with_states(self, ids: Sequence[Ints]) -> tuple[Tensor, Tensor]:
        """(B, D) sentence embeddings, and (B, T, D) hidden states for tagging."""
        assert self.word_module is not None
        states: list[Tensor] = []
        embeddings = self._run(ids, [(self.word_module, states.append)])
        return embeddings, states[0]

    def _run(self, ids: Sequence[Ints], also: Sequence[tuple[nn.Module, StateObserver]]) -> Tensor:
        """(B, D) sentence embeddings; `also` has modules with observers of their outputs."""
        pad = self.tokenizer.pad_token_id
        device = next(self.model.parameters()).device
        tokens, mask = (part.to(device) for part in pad_batch(ids, pad))
        pooled = accumulator(self.pool, mask, tokens != pad, self.layer_norm)
        observers = [(module, _add_to(pooled, self.mix[layer]))
                     for layer, module in self.layer_modules.items()]
        with contextlib.ExitStack() as stack:
            for module, observer in [*observers, *also]:
                stack.callback(module.register_forward_hook(_hook(observer)).remove)
            self.model(input_ids=tokens, attention_mask=mask)
        return pooled.result()


def _add_to(pooled: PoolingAccumulator, weight: float) -> StateObserver:
    return lambda states: pooled.add(states, weight)


def _hook(observer: StateObserver) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, given: Any, output: Any) -> None:
        observer(output[0] if isinstance(output, tuple) else output)

    return hook


def encoder_files(checkpoint: Checkpoint, files: str | None) -> tuple[Any, Any]:
    """The encoder's configuration and tokenizer, from local files if possible, else the hub."""
    name = checkpoint.architecture.pretrained_model
    tokenizer = _TOKENIZERS.get(checkpoint.architecture.encoder_model, name)
    beside = checkpoint.folder / "encoder"
    if files is not None or beside.is_dir():
        name = tokenizer = files or str(beside)
    hint = f"put it into {beside}, or give a folder that has it as the option `encoder`"
    config = load_config(name, hint)
    if checkpoint.architecture.encoder_model == "DeBERTa":
        return config, _sentencepiece_tokenizer(tokenizer)
    # the base class uses tokenizer.json as it is; others may rebuild it with another normaliser
    from transformers import PreTrainedTokenizerFast

    return config, load_tokenizer(tokenizer, PreTrainedTokenizerFast, hint)


def _sentencepiece_tokenizer(name: str) -> Any:
    """DeBERTa's tokenizer, which is a SentencePiece model without tokenizer.json."""
    with needs_extra("an encoder of DeBERTa's kind", "neural"):
        from minrisk._torch.sentencepiece import SentencePieceTokenizer
    return SentencePieceTokenizer(model_file(name, SentencePieceTokenizer.FILE))


def _build(architecture: Architecture, config: Any, checkpoint: Checkpoint) -> Any:
    import transformers

    name, settings = _MODELS[architecture.encoder_model]
    kind = getattr(transformers, name)
    if not isinstance(config, kind.config_class):
        raise InputError(f"{checkpoint.folder}: found the configuration of another encoder, "
                         f"{config.model_type!r}, expected that of {architecture.encoder_model}; "
                         "check `encoder`")
    with meta_build(checkpoint.folder):
        return kind(config, **settings)


def _fill(model: Any, checkpoint: Checkpoint) -> None:
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in checkpoint.weights.items()
               if name.startswith(_PREFIX)}
    load_weights(model, weights, checkpoint.folder, "check `encoder`")


def _layer_mix(checkpoint: Checkpoint, count: int) -> dict[int, float]:
    """Layer -> weight of its hidden states; zero weights are left out."""
    layer = checkpoint.architecture.layer
    if layer != "mix":
        return {_layer(layer, count, checkpoint): 1.0}
    scalars = torch.stack([_scalar(checkpoint, f"scalar_parameters.{i}") for i in range(count)])
    gamma = float(_scalar(checkpoint, "gamma"))
    weights = layer_weights(scalars, checkpoint.architecture.layer_transformation)
    return {i: gamma * weight for i, weight in enumerate(weights) if weight > 0}


def _scalar(checkpoint: Checkpoint, name: str) -> Tensor:
    """A scalar parameter of the layer mixture."""
    found = checkpoint.weights.get(f"layerwise_attention.{name}")
    if found is None or found.numel() != 1 or not found.isfinite().all():
        raise InputError(f"{checkpoint.folder}: the checkpoint has no number "
                         f"layerwise_attention.{name}; copy it again, or check `encoder`")
    return found.float().reshape(())


def _layer(layer: object, count: int, checkpoint: Checkpoint) -> int:
    if not isinstance(layer, int) or not -count <= layer < count:
        raise InputError(f"{checkpoint.folder}: layer {layer!r} of {count}; expected 'mix' or a "
                         "number below that")
    return layer % count  # negative numbers count from the end, as in the official code


def _layer_module(model: Any, layer: int) -> nn.Module:
    """The module whose output is the hidden states of a layer; layer 0 is the embeddings."""
    layers: nn.ModuleList = model.encoder.layer
    if layer == 0:  # RemBERT projects its embeddings to a larger size
        widened: nn.Module = getattr(model.encoder, "embedding_hidden_mapping_in", model.embeddings)
        return widened
    if layer == len(layers) and model.config.model_type == "xlm-roberta-xl":
        normalised: nn.Module = model.encoder.LayerNorm
        return normalised
    return layers[layer - 1]


def _drop_layers_above(model: Any, last: int) -> None:
    model.encoder.layer = model.encoder.layer[:last]
