"""The working parts of COMET: encoder and estimator on a device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from minrisk.arrays import Floats, Ints
from minrisk.errors import InputError
from minrisk.metrics.comet import checkpoint
from minrisk.metrics.comet.encoder import Encoder
from minrisk.metrics.comet.estimator import BLOCKS, Estimator, feed_forward
from minrisk.rows import WeightedRows

if TYPE_CHECKING:
    from minrisk.metrics.comet import Comet

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SHARE = 0.5  # of the free memory of a device that scoring may take
_UNKNOWN = 1e9  # bytes for scoring where the free memory cannot be asked for


class Scorer:
    """Loads what a `Comet` names, once, and computes with it."""

    def __init__(self, options: Comet) -> None:
        self._options = options
        self._checkpoint = checkpoint.load(options.model)
        self._device = _device(options.device)
        self._dtype = _dtype(options.dtype, self._device)

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """(N, D)"""
        encoder = self._encoder
        ids = encoder.tokenize(texts)
        long = sum(len(own) > encoder.longest for own in ids)
        if long:
            warnings.warn(f"{long} of {len(ids)} texts have more than {encoder.longest} tokens; "
                          "COMET does not see the rest", stacklevel=3)
        found = encoder.encode([encoder.cut(own) for own in ids], self._options.tokens)
        return found.to(self._dtype)

    @torch.inference_mode()
    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        mt, src = _texts(hyps), _texts(source)
        if self._expects(refs):
            columns = [self._expected(mt, refs, row, src) for row in range(len(refs))]
            return _array(torch.stack(columns, dim=1))
        result = np.empty((len(hyps), len(refs)))
        blocks = self._estimator.each_row_block(mt, _means(refs), src, self._pairs())
        for rows, block in blocks:
            result[rows] = _array(block)
        return result

    @torch.inference_mode()
    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats:
        if self._expects(refs):
            return self.scores(hyps, refs, source) @ mass
        mt, src = _texts(hyps), _texts(source)
        weights = torch.as_tensor(mass, dtype=torch.float32, device=mt.device)
        if _same(hyps, refs):
            return _array(self._estimator.symmetric_utility(mt, weights, src, self._pairs()))
        blocks = self._estimator.each_row_block(mt, _means(refs), src, self._pairs())
        return _array(torch.cat([block.float() @ weights for _, block in blocks]))

    def vectors(self, features: WeightedRows) -> Floats:
        return _array(_means(features))

    @cached_property
    def _encoder(self) -> Encoder:
        made = Encoder.of(self._checkpoint, self._options.encoder)
        made.model.to(self._device, self._dtype)
        return made

    @cached_property
    def _estimator(self) -> Estimator:
        spec = self._checkpoint.architecture
        if spec.class_identifier != checkpoint.REGRESSION:
            raise InputError(f"{self._options.model}: judges a hypothesis by its source alone, and "
                             "cannot compare it with references")
        prefix = "estimator.ff."
        weights = {name.removeprefix(prefix): tensor
                   for name, tensor in self._checkpoint.weights.items() if name.startswith(prefix)}
        units = weights["0.weight"].shape[1]
        assert units % BLOCKS == 0
        network = feed_forward(units, spec.hidden_sizes, spec.activations, spec.final_activation)
        network.load_state_dict(weights)
        return Estimator.of(network.to(self._device, self._dtype).eval())

    def _expects(self, refs: WeightedRows) -> bool:
        return self._options.aggregation == "expected" and not refs.is_plain

    def _expected(self, mt: Tensor, refs: WeightedRows, row: int, src: Tensor) -> Tensor:
        """(H,) against one aggregate, with the first layer's mean over its texts exact."""
        part = slice(refs.offsets[row], refs.offsets[row + 1])
        texts = _rows(refs.base, refs.members[part])
        weights = torch.as_tensor(refs.weights[part], dtype=texts.dtype, device=texts.device)
        estimator = self._estimator
        return estimator.finish(estimator.expected_first(mt, src, texts, weights))

    def _pairs(self) -> int:
        """How many pairs fit into the memory that there is for them."""
        free = _UNKNOWN
        if self._options.memory is not None:
            free = self._options.memory * 1e9
        elif self._device.type == "cuda":
            free = torch.cuda.mem_get_info(self._device)[0] * _SHARE
        return max(1, int(free / self._estimator.pair_bytes()))


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


def _texts(features: WeightedRows) -> Tensor:
    if not features.is_plain:
        raise InputError("COMET scores texts against references; "
                         "an aggregate cannot be the hypothesis")
    return _rows(features.base, features.members)


def _means(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row: of its text, or the mean of its texts."""
    if features.is_plain:
        return _rows(features.base, features.members)
    weights = torch.as_tensor(features.weights, dtype=features.base.dtype,
                              device=features.base.device)
    weighted = _rows(features.base, features.members) * weights[:, None]
    label = np.repeat(np.arange(len(features)), np.diff(features.offsets))
    means = weighted.new_zeros(len(features), weighted.shape[1])
    return means.index_add_(0, torch.as_tensor(label, device=weighted.device), weighted)


def _rows(base: Tensor, rows: Ints) -> Tensor:
    return base[torch.as_tensor(rows, device=base.device)]


def _same(hyps: WeightedRows, refs: WeightedRows) -> bool:
    return (hyps.base is refs.base and refs.is_plain
            and np.array_equal(hyps.members, refs.members))


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.double().cpu().numpy()
    return found
