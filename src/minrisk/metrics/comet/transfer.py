"""Arrays to a device, without waiting for what it is still doing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def sent(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)
