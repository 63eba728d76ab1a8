"""Linear layers with int8 weights and activations, by oneDNN's kernels for CPUs with VNNI.

Each output has a scale for its weights, and each token one for its activations, so that a text's
numbers do not depend on the batch that it is in.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

_LARGEST = 127
_ZERO = 128  # as an unsigned number, which the kernels take for activations
_WITHOUT_VNNI = ("SSE41", "AVX", "AVX2", "AVX512_CORE")  # whose sums of products overflow
_SMALLEST = 1e-12  # so that zeros can be scaled, too


def int8_not_supported_reasons(device: torch.device) -> list[str]:
    """Reasons why such layers cannot run on a device; none if they can."""
    reasons = []
    if device.type != "cpu":
        reasons.append(f"the device is {device}, not cpu")
    if not torch.cpu._is_vnni_supported():
        reasons.append("the CPU has no VNNI instructions")
    elif os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_VNNI:
        reasons.append("ONEDNN_MAX_CPU_ISA leaves its VNNI instructions unused")
    return reasons


class Int8Linear(nn.Module):
    """A linear layer in int8; inputs and outputs are float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        self._scales = weight.abs().amax(1).clamp(min=_SMALLEST) / _LARGEST
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        quantized = (weight / self._scales[:, None]).round().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized, None)
        self._bias = (weight.new_zeros(len(weight)) if linear.bias is None
                      else linear.bias.detach().float())

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])  # (T, D)
        # not the maximum of absolute values, which takes another pass over them
        largest = torch.maximum(rows.amax(1), -rows.amin(1)).clamp_(min=_SMALLEST)[:, None]
        rounded = (rows * (_LARGEST / largest)).add_(_ZERO + 0.5).to(torch.uint8)
        products = torch.ops.onednn.qlinear_pointwise(
            rounded, 1 / _LARGEST, _ZERO, self._weight, self._scales, self._zeros, None, 1.0, 0,
            torch.float32, "none", [], "")
        return torch.addcmul(self._bias, products, largest).view(*inputs.shape[:-1], -1)


def quantize_linear_layers(model: nn.Module) -> None:
    """Replaces all linear layers inside a model."""
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is nn.Linear:
                setattr(module, name, Int8Linear(part))
