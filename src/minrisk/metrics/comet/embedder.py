"""The encoder of a COMET model on a device: texts in, embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from minrisk._core.arrays import Ints
from minrisk._core.errors import InputError, warn
from minrisk._core.lazy import lazy
from minrisk._torch.device import InDtype, Runtime
from minrisk._torch.int8 import Int8Linear
from minrisk._torch.onednn import replace_linear_layers
from minrisk._torch.weights import fingerprint, load_weights, meta_build
from minrisk.metrics.comet import checkpoint, packed
from minrisk.metrics.comet.encoder import CometEncoder
from minrisk.metrics.comet.estimator import INPUT_BLOCKS, feed_forward
from minrisk.metrics.embedding import EmbeddingCache, Vectors

if TYPE_CHECKING:
    from minrisk.metrics.comet import CometModel

N = TypeVar("N", bound=nn.Module)
# number of embeddings, products and differences in the estimator's input; 1 for other classes
_INPUT_BLOCKS = {checkpoint.REGRESSION: INPUT_BLOCKS, checkpoint.REFERENCELESS: 4}
_LARGEST_FACTOR = 2.0**8  # its square overflows fp16
SEVERITY_WEIGHTS = (0.0, 1.0, 5.0, 10.0)  # XCOMET's tags: none, minor, major, critical
_CLASS_HINTS = {  # advice if a model of this class is given to the wrong metric
    checkpoint.REGRESSION: "compares a hypothesis with references, and cannot judge it by its "
                           "source alone; use it as the metric 'comet'",
    checkpoint.REFERENCELESS: "judges a hypothesis by its source alone, and cannot compare it "
                              "with references; use it as the metric 'comet-qe'",
    **dict.fromkeys(checkpoint.UNIFIED_CLASSES,
                    "reads source, hypothesis and reference together, and has no sentence "
                    "embeddings to compare; use it as the metric 'comet-kiwi' or 'xcomet'"),
}


def truncation_warning(what: str, limit: str) -> str:
    """The warning about truncated inputs, equal for every batch so that it is shown once."""
    return (f"some {what} have more than {limit}; COMET does not see the rest: compare documents "
            "sentence by sentence, as documents:comet does")


class Embedder:
    """The checkpoint and the encoder of a COMET metric, loaded once."""

    def __init__(self, options: CometModel) -> None:
        self._options = options
        self._checkpoint = checkpoint.load(options.model)
        self.architecture = self._checkpoint.architecture
        if (self.architecture.class_identifier in checkpoint.UNIFIED_CLASSES) != options.is_unified:
            raise self.wrong_class_error()
        # fp16 has three more bits of precision than bf16, and three fewer of range
        self.runtime = Runtime(options.device, options.dtype, options.tokens, torch.float16)
        self._encoder = InDtype(self.runtime, self._load_encoder)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(N, D) sentence embeddings, from the cache if there is one."""
        if self._store is None:
            return self.encode(self.tokenize(texts))
        found = torch.from_numpy(self._store.get_or_encode(texts, self._vectors))
        return found.to(self.runtime.device, self.runtime.dtype)

    def _vectors(self, texts: list[str]) -> Vectors:
        found: Vectors = self.encode(self.tokenize(texts)).float().cpu().numpy()
        return found

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        encoder = self.encoder
        ids = encoder.tokenize(texts)
        if any(own.size > encoder.max_tokens for own in ids):
            warn(truncation_warning("texts", f"{encoder.max_tokens} tokens"))
        return [encoder.cut(own) for own in ids]

    @torch.inference_mode()
    def encode(self, ids: Sequence[Ints]) -> Tensor:
        """(N, D)"""
        return self.runtime.checked(lambda: self._encode(ids), _have_products)

    def _encode(self, ids: Sequence[Ints]) -> Tensor:
        encoder = self.encoder
        with self.runtime.inference():
            return encoder.encode(ids, self.runtime.tokens).to(self.runtime.dtype)

    def network(self, *wanted: str) -> InDtype[nn.Sequential]:
        """The feed-forward network of the estimator; `wanted` are the allowed model classes."""
        if self.architecture.class_identifier not in wanted:
            raise self.wrong_class_error()
        return InDtype(self.runtime, self._load_network)

    def _load_network(self) -> nn.Sequential:
        spec = self.architecture
        units = _INPUT_BLOCKS.get(spec.class_identifier, 1) * self._hidden_size
        with meta_build(self._options.model):
            network = feed_forward(units, spec.hidden_sizes, spec.activations,
                                   spec.final_activation)
        return self._loaded(network, self._weights("estimator.ff."))

    def tagger(self) -> InDtype[nn.Linear]:
        """The layer that tags the tokens of a hypothesis with error severities."""
        return InDtype(self.runtime, self._load_tagger)

    def _load_tagger(self) -> nn.Linear:
        with meta_build(self._options.model):
            layer = nn.Linear(self._hidden_size, len(SEVERITY_WEIGHTS))
        return self._loaded(layer, self._weights("hidden2tag."))

    @property
    def _hidden_size(self) -> int:
        """Size of an embedding."""
        model: Any = self.encoder.model
        return int(model.config.hidden_size)

    def wrong_class_error(self) -> InputError:
        reason = _CLASS_HINTS[self.architecture.class_identifier]
        return InputError(f"{self._options.model}: {reason}")

    def _weights(self, prefix: str) -> dict[str, Tensor]:
        found = {name.removeprefix(prefix): tensor
                 for name, tensor in self._checkpoint.weights.items() if name.startswith(prefix)}
        if not found:
            raise InputError(f"{self._options.model}: the checkpoint lacks the weights of its "
                             f"{prefix.split('.')[0]}; copy it again")
        return found

    def _loaded(self, network: N, weights: dict[str, Tensor]) -> N:
        load_weights(network, weights, self._options.model, "copy it again")
        return network.to(self.runtime.device, self.runtime.dtype).eval()

    @property
    def encoder(self) -> CometEncoder:
        return self._encoder.get()

    def _load_encoder(self) -> CometEncoder:
        spec = self.architecture
        words = spec.word_layer if spec.class_identifier == checkpoint.XCOMET else None
        encoder = CometEncoder.of(self._checkpoint, self._options.encoder, words)
        encoder.model.to(self.runtime.device, self.runtime.dtype)
        if self.runtime.is_int8:
            replace_linear_layers(encoder.model, Int8Linear)
        if self._options.fast and not packed.not_supported_reasons(encoder):
            return replace(encoder, packed=packed.PackedEncoder(encoder))
        return encoder

    @lazy
    def _store(self) -> EmbeddingCache | None:
        cache = getattr(self._options, "cache", None)  # unified models have no such option
        if cache is None:
            return None
        words = sorted(self.encoder.tokenizer.get_vocab().items())
        model = fingerprint(self._checkpoint.weights, str(self.architecture),
                            self._number_format, str(self._options.dtype == "tf32"),
                            str(words))
        return EmbeddingCache(cache, model)

    @property
    def _number_format(self) -> str:
        if self.runtime.may_fall_back:  # the current format depends on the texts so far
            return "torch.float16 or torch.bfloat16"
        return "int8" if self.runtime.is_int8 else str(self.runtime.dtype)


def _have_products(embeddings: Tensor) -> bool:
    """Whether products of the embeddings, as the estimator forms them, fit into fp16."""
    return bool((embeddings.abs() < _LARGEST_FACTOR).all())
