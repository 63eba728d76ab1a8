"""The embeddings of features as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from minrisk._core.arrays import Floats, Ints
from minrisk._core.groups import WeightedRows
from minrisk._torch.device import upload


def vectors(features: WeightedRows) -> Tensor:
    """(N, D) embeddings of texts and aggregates, at least in single precision."""
    return mean_embeddings(features).float()


def text_embeddings(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row, which must be a text."""
    features.check_texts()
    return embedding_rows(features.base, features.members)


def mean_embeddings(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row: that of its text, or the mean over its texts.

    Means are computed in the number format of sums: in half precision every addition would round,
    and on a GPU in varying order.
    """
    if features.is_plain:
        return embedding_rows(features.base, features.members)
    weights = upload_for_sums(features.weights, features.base.device)
    weighted = embedding_rows(features.base, features.members).to(weights.dtype) * weights[:, None]
    means = weighted.new_zeros(len(features), weighted.shape[1])
    return means.index_add_(0, upload(features.rows, weighted.device), weighted)


def embedding_rows(base: Tensor, rows: Ints) -> Tensor:
    """(N, D) some rows; a view if they are contiguous, as those of a segment mostly are."""
    if rows.size and np.array_equal(rows, np.arange(rows[0], rows[0] + rows.size)):
        return base[rows[0] : rows[0] + rows.size]
    found: Tensor = base[upload(rows, base.device)]
    return found


def upload_for_sums(array: Floats, device: torch.device) -> Tensor:
    """An array on the device in the number format of sums: float64, or float32 on Apple's GPUs,
    which do not support it.
    """
    return upload(array.astype(np.float32 if device.type == "mps" else np.float64), device)


def cast_for(module: nn.Module, tensor: Tensor) -> Tensor:
    """The tensor in the number format of a module's weights."""
    return tensor.to(next(module.parameters()).dtype)


def to_numpy(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().cpu().numpy().astype(np.float64)
    return found
