"""What a device can do for us."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def not_supported_reasons(device: torch.device) -> list[str]:
    """Why our kernels cannot be used; none if they can."""
    reasons = []
    if device.type != "cuda":
        reasons.append(f"the device is {device.type}, not cuda")
    try:
        import triton  # noqa: F401 - comes with torch where it can run
    except ImportError:
        reasons.append("triton is not installed")
    return reasons


def suitable_attention(device: torch.device) -> AbstractContextManager[None]:
    """Not cuDNN's: it makes a plan for every new shape, and here every step has another."""
    if device.type != "cuda":
        return nullcontext()
    suitable: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return suitable
