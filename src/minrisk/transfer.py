"""From the host to a device, without waiting for what it is still doing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def upload(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """A copy that the device makes when it gets there; on the CPU the array itself."""
    return staged(array, device).to(device, non_blocking=True)


def staged(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Where the device can fetch it; torch uses that memory again only after the copy."""
    tensor: Tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory() if device.type == "cuda" else tensor
