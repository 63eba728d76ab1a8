"""Where kernels of our own run."""

from __future__ import annotations

import torch


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
