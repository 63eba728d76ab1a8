"""Triton kernels that several models use; they accumulate in float32 for any input type."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def add_norm(update: Tensor, residual: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    """(T, D) layer norm of `update` + `residual`, in one pass."""
    count, width = residual.shape
    out = torch.empty_like(residual)
    _add_norm[(count,)](update, residual, norm.weight, norm.bias, out, width, norm.eps,
                        block=triton.next_power_of_2(width))
    return out


@triton.jit
def _add_norm(update, residual, weight, bias, out, width, eps, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, block)
    inside = at < width
    x = tl.load(update + start + at, inside, other=0).to(tl.float32)
    x += tl.load(residual + start + at, inside, other=0).to(tl.float32)
    centred = tl.where(inside, x - tl.sum(x, axis=0) / width, 0)
    variance = tl.sum(centred * centred, axis=0) / width
    scale = tl.load(weight + at, inside).to(tl.float32)
    shift = tl.load(bias + at, inside).to(tl.float32)
    tl.store(out + start + at, centred / tl.sqrt(variance + eps) * scale + shift, inside)
