"""From the host to a device, without waiting for what it is still doing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def upload(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """A copy that the device makes when it gets there; on the CPU the array itself."""
    tensor: Tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    # torch keeps pinned memory from being used again before the copy has happened
    return tensor.pin_memory().to(device, non_blocking=True)
