"""Sequences of tokens for a device: similar lengths together, so that little of it is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Ints


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows of similar length together, longest first, so that too large a batch fails at once."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def padded(ids: Sequence[Ints], pad: int) -> tuple[Tensor, Tensor]:
    """(B, T) tokens, and a mask that is 1 where they are no padding."""
    lengths = np.array([own.size for own in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(mask.shape, pad)
    tokens[mask] = np.concatenate(ids)
    return torch.from_numpy(tokens), torch.from_numpy(mask.astype(np.int64))
