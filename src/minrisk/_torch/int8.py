"""Linear layers with int8 weights and activations, by the native core.

Weights are scaled per output channel and activations per token, so that the results for a text do
not depend on its batch. Their products are exact, and the same on all CPUs.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from minrisk._core.native import native_core
from minrisk._torch.onednn import replace_linear_layers, replace_module

_LARGEST = 127
_PANEL = 32  # outputs whose weights are adjacent, four inputs at a time
_SMALLEST = 1e-12  # prevents division by zero


def int8_not_supported_reasons(device: torch.device) -> list[str]:
    """Reasons why layers in int8 cannot run on a device, or are slow there; none if they are fast.
    """
    native = native_core()
    reasons = []
    if device.type != "cpu":
        reasons.append(f"the device is {device}, not cpu")
    if native is None:
        reasons.append("the native core is not there")
    elif native.simd() == "portable":
        reasons.append("AVX2 instructions are missing or left unused")
    return reasons


class Int8Linear(nn.Module):
    """A linear layer in int8; inputs and outputs are float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        largest = weight.abs().amax(1).clamp(min=_SMALLEST)
        numbers = (weight * (_LARGEST / largest)[:, None]).round().to(torch.int8)
        # of products of integers, with the share of a row's largest activation in 127
        self._scales = largest / _LARGEST**2
        self._weight = _panels(numbers)
        self._offsets = -(_LARGEST + 1) * self._weight.sum((1, 3), dtype=torch.int32).flatten()
        self._bias = (weight.new_zeros(len(weight)) if linear.bias is None
                      else linear.bias.detach().float())

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, self.in_features)
        native = native_core()
        if native is None:
            found = self._exact(rows)
        else:
            found = torch.empty(len(rows), self.out_features)
            native.int8.linear(
                rows.detach().contiguous().numpy(), self._weight.numpy(), self._offsets.numpy(),
                self._scales.numpy(), self._bias.numpy(), found.numpy(), torch.get_num_threads())
        return found.view(*inputs.shape[:-1], self.out_features)

    def _exact(self, rows: Tensor) -> Tensor:
        """What the native core computes, for rows (T, D); sums of integers are exact in float64."""
        largest = rows.abs().amax(1, keepdim=True).clamp(min=_SMALLEST)
        numbers = (rows * (_LARGEST / largest) + (_LARGEST + 1.5)).floor() - (_LARGEST + 1)
        weight = self._numbers(torch.arange(self.out_features))
        products = (numbers.double() @ weight.double().T).float()
        return products * self._scales * largest + self._bias

    def _numbers(self, outputs: Tensor) -> Tensor:
        """(N, D) weights of some outputs (N,), as integers."""
        found = self._weight[outputs // _PANEL, :, outputs % _PANEL]
        return found.flatten(1)[:, : self.in_features]

    def rows(self, outputs: Tensor) -> Tensor:
        """(..., D) weights of some outputs (...), rounded."""
        scales = self._scales[outputs.flatten(), None] * _LARGEST
        return (self._numbers(outputs.flatten()) * scales).view(*outputs.shape, -1)

    def with_bias(self, bias: Tensor | None) -> Self:
        """The same weights with another bias."""
        other = copy(self)
        other._bias = self._scales.new_zeros(len(self._scales)) if bias is None else bias.float()
        return other


class _Int8Embedding(nn.Module):
    """Embeddings that are the rounded weights of a linear layer."""

    def __init__(self, given: nn.Embedding, layer: Int8Linear) -> None:
        super().__init__()
        self._layer = layer
        if hasattr(given, "embed_scale"):
            self.embed_scale = given.embed_scale

    def forward(self, tokens: Tensor) -> Tensor:
        return self._layer.rows(tokens) * getattr(self, "embed_scale", 1.0)


def replace_layers(model: nn.Module) -> None:
    """Replaces all linear layers, and the embeddings that share their weights."""
    embeddings = [(name, part) for name, part in model.named_modules(remove_duplicate=False)
                  if isinstance(part, nn.Embedding)]
    linear = {id(part.weight): name for name, part in model.named_modules()
              if type(part) is nn.Linear}
    replace_linear_layers(model, Int8Linear)
    for name, part in embeddings:
        if id(part.weight) in linear:
            layer: Any = model.get_submodule(linear[id(part.weight)])
            replace_module(model, name, _Int8Embedding(part, layer))


def _panels(weight: Tensor) -> Tensor:
    """(panels, D / 4, outputs of a panel, 4) from weights (O, D), padded with zeros."""
    outputs, inputs = weight.shape
    padded = pad(weight, (0, -inputs % 4, 0, -outputs % _PANEL))
    return padded.view(-1, _PANEL, padded.shape[1] // 4, 4).transpose(1, 2).contiguous()
