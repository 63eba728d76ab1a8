"""Linear layers with int8 weights and activations, by oneDNN's kernels for CPUs.

Weights are scaled per output channel and activations per token, so that the results for a text do
not depend on its batch.
"""

from __future__ import annotations

import os
from copy import copy
from typing import Self

import torch
from torch import Tensor, nn

from minrisk._core.native import native_core

_LARGEST = 127
_ZERO = 128  # zero point: the kernels take unsigned activations
_WITHOUT_AVX2 = ("SSE41", "AVX")
_WITHOUT_VNNI = (*_WITHOUT_AVX2, "AVX2", "AVX512_CORE")  # their 16-bit sums of products overflow
_SMALLEST = 1e-12  # prevents division by zero


def int8_not_supported_reasons(device: torch.device, bits: int = 8) -> list[str]:
    """Reasons why layers whose weights have so many bits cannot run on a device; none if they can.

    CPUs without VNNI add pairs of products in 16 bits, which weights of 7 bits do not overflow.
    """
    reasons = []
    if device.type != "cpu":
        reasons.append(f"the device is {device}, not cpu")
    if bits == 8 and not _has_vnni():
        reasons.append("torch finds no VNNI instructions on the CPU")
    elif bits == 8 and _isa_limit() in _WITHOUT_VNNI:
        reasons.append("ONEDNN_MAX_CPU_ISA leaves its VNNI instructions unused")
    elif torch.backends.cpu.get_cpu_capability() == "DEFAULT" or _isa_limit() in _WITHOUT_AVX2:
        reasons.append("its AVX2 instructions are missing or left unused")
    return reasons or _missing_kernels()


def _isa_limit() -> str:
    return os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()


def _has_vnni() -> bool:
    found = getattr(torch.cpu, "get_capabilities", None)  # only newer versions of torch have it
    if found is not None:
        return bool(found().get("avx512_vnni"))
    older = getattr(torch.cpu, "_is_vnni_supported", None)
    return older is not None and bool(older())


def _missing_kernels() -> list[str]:
    """Tries the kernels, because they are internal to torch's quantization and may change."""
    scales, zeros = torch.ones(2), torch.zeros(2, dtype=torch.int32)
    try:
        weight = _prepack(torch.zeros(2, 4, dtype=torch.int8))
        _products(torch.zeros(1, 4, dtype=torch.uint8), weight, scales, zeros)
    except (AttributeError, RuntimeError, TypeError) as error:
        return [f"torch {torch.__version__} lacks the int8 kernels ({type(error).__name__})"]
    return []


def _prepack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight, None)
    return packed


def _products(rows: Tensor, weight: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """(T, O) products of unsigned activations (T, D), with `_ZERO` for 0 and `_LARGEST` more for 1.
    """
    found: Tensor = torch.ops.onednn.qlinear_pointwise(
        rows, 1 / _LARGEST, _ZERO, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [],
        "")
    return found


def quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (T, D) as unsigned integers, and the largest absolute value (T,) of each."""
    native = native_core()
    if native is None:
        # abs().amax() would take another pass
        largest = torch.maximum(rows.amax(1), -rows.amin(1)).clamp_(min=_SMALLEST)
        factors = _LARGEST / largest[:, None]
        return (rows * factors).add_(_ZERO + 0.5).to(torch.uint8), largest
    found, largest = torch.empty(rows.shape, dtype=torch.uint8), torch.empty(len(rows))
    native.int8.quantize(rows.detach().contiguous().numpy(), found.numpy(), largest.numpy(),
                         torch.get_num_threads())
    return found, largest


def scaled(products: Tensor, scales: Tensor, bias: Tensor) -> Tensor:
    """Products (T, O), overwritten, times one scale (T,) for each row, plus a bias (O,)."""
    native = native_core()
    if native is None:
        return torch.addcmul(bias, products, scales[:, None])
    native.int8.scale(products.numpy(), scales.numpy(), bias.numpy(), torch.get_num_threads())
    return products


class Int8Linear(nn.Module):
    """A linear layer in int8; inputs and outputs are float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        has_vnni = _has_vnni() and _isa_limit() not in _WITHOUT_VNNI
        largest = _LARGEST if has_vnni else _LARGEST // 2
        self._scales = weight.abs().amax(1).clamp(min=_SMALLEST) / largest
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        quantized = (weight / self._scales[:, None]).round().to(torch.int8)
        self._weight = _prepack(quantized)
        self._bias = (weight.new_zeros(len(weight)) if linear.bias is None
                      else linear.bias.detach().float())

    def forward(self, inputs: Tensor) -> Tensor:
        rows, largest = quantized(inputs.reshape(-1, inputs.shape[-1]))  # (T, D), (T,)
        products = _products(rows, self._weight, self._scales, self._zeros)
        return scaled(products, largest, self._bias).view(*inputs.shape[:-1], -1)

    def with_bias(self, bias: Tensor | None) -> Self:
        """The same weights with another bias."""
        other = copy(self)
        other._bias = self._scales.new_zeros(len(self._scales)) if bias is None else bias.float()
        return other
