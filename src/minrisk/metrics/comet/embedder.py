"""The encoder of a COMET model on a device: texts in, embeddings out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from minrisk.arrays import Ints
from minrisk.errors import InputError
from minrisk.metrics.comet import checkpoint, packed
from minrisk.metrics.comet.encoder import Encoder
from minrisk.metrics.comet.estimator import feed_forward
from minrisk.metrics.comet.store import Store, fingerprint

if TYPE_CHECKING:
    from minrisk.metrics.comet import EmbeddingModel

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
           "fp16": torch.float16}
_TOKENS = {True: 32768, False: 4096}  # at once, with and without CUDA
_OTHERWISE = {  # what to do with a model of each class that was taken for another
    checkpoint.REGRESSION: "compares a hypothesis with references, and cannot judge it by its "
                           "source alone; use it as --metric comet",
    checkpoint.REFERENCELESS: "judges a hypothesis by its source alone, and cannot compare it "
                              "with references; use it as --metric comet-qe",
}


class Embedder:
    """Loads what a metric names, once."""

    def __init__(self, options: EmbeddingModel) -> None:
        self._options = options
        self._checkpoint = checkpoint.load(options.model)
        self.device = _device(options.device)
        self._dtype = _dtype(options.dtype, self.device)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(N, D), from the cache where they are there."""
        if self._store is None:
            return self.encode(self.tokenize(texts))
        known = self._store.get(texts)
        new = [text for text in texts if text not in known]
        if new:
            added = dict(zip(new, self.encode(self.tokenize(new)).float().cpu(), strict=True))
            self._store.put(added)
            known |= added
        return torch.stack([known[text] for text in texts]).to(self.device, self._dtype)

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        encoder = self._encoder
        ids = encoder.tokenize(texts)
        long = sum(own.size > encoder.longest for own in ids)
        if long:
            warnings.warn(f"{long} of {len(ids)} texts have more than {encoder.longest} tokens; "
                          "COMET does not see the rest", stacklevel=4)
        return [encoder.cut(own) for own in ids]

    @torch.inference_mode()
    def encode(self, ids: Sequence[Ints]) -> Tensor:
        """(N, D)"""
        with self.precision():
            budget = self._options.tokens or _TOKENS[self.device.type == "cuda"]
            return self._encoder.encode(ids, budget).to(self._dtype)

    def network(self, wanted: str) -> nn.Sequential:
        """The estimator, of a model that must be of the wanted class."""
        spec = self._checkpoint.architecture
        if spec.class_identifier != wanted:
            raise InputError(f"{self._options.model}: {_OTHERWISE[spec.class_identifier]}")
        prefix = "estimator.ff."
        weights = {name.removeprefix(prefix): tensor
                   for name, tensor in self._checkpoint.weights.items() if name.startswith(prefix)}
        units = weights["0.weight"].shape[1]
        network = feed_forward(units, spec.hidden_sizes, spec.activations, spec.final_activation)
        network.load_state_dict(weights)
        return network.to(self.device, self._dtype).eval()

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Whether products of float32 may drop digits; the caller's choice comes back after it."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self._options.dtype == "tf32" else "highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    @cached_property
    def _encoder(self) -> Encoder:
        made = Encoder.of(self._checkpoint, self._options.encoder)
        made.model.to(self.device, self._dtype)
        if self._options.fast and not packed.not_supported_reasons(made):
            return replace(made, packed=packed.Packed(made))
        return made

    @cached_property
    def _store(self) -> Store | None:
        if self._options.cache is None:
            return None
        words = sorted(self._encoder.tokenizer.get_vocab().items())
        model = fingerprint(self._checkpoint.weights, str(self._checkpoint.architecture),
                            str(self._dtype), str(self._options.dtype == "tf32"), str(words))
        return Store(self._options.cache, model)


def _device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name != "auto":
        return _DTYPES[name]
    return torch.bfloat16 if device.type == "cuda" else torch.float32
