"""Which attention suits a device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def suitable_attention(device: torch.device) -> AbstractContextManager[None]:
    """Not cuDNN's: it makes a plan for every new shape, and here every step has another."""
    if device.type != "cuda":
        return nullcontext()
    suitable: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return suitable
