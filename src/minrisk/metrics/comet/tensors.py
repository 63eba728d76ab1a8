"""Rows of features as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.weighted_rows import WeightedRows
from minrisk._torch.device import upload


def vectors(features: WeightedRows) -> Tensor:
    """(N, D) of texts and of averages, in single precision at least."""
    return means(features).float()


def texts_of(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row, which must be a text."""
    if not features.is_plain:
        raise InputError("COMET scores texts against references; "
                         "an aggregate cannot be the hypothesis")
    return rows_of(features.base, features.members)


def means(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row: of its text, or the mean of its texts."""
    if features.is_plain:
        return rows_of(features.base, features.members)
    weights = torch.as_tensor(features.weights, dtype=features.base.dtype,
                              device=features.base.device)
    weighted = rows_of(features.base, features.members) * weights[:, None]
    label = np.repeat(np.arange(len(features)), np.diff(features.offsets))
    means = weighted.new_zeros(len(features), weighted.shape[1])
    return means.index_add_(0, upload(label, weighted.device), weighted)


def rows_of(base: Tensor, rows: Ints) -> Tensor:
    found: Tensor = base[upload(rows, base.device)]
    return found


def array(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().cpu().numpy().astype(np.float64)
    return found
