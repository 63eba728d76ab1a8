"""Weights into models that were made without any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from minrisk.errors import InputError

_COUNTERS = ("position_ids", "token_type_ids")  # 0, 1, 2, ... and zeros: not weights


def fill(model: Any, weights: Mapping[str, Tensor], where: object, hint: str) -> None:
    """All of them; a model on no device (meta) takes them as they are."""
    try:
        missing, _ = model.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:  # other sizes
        reason = str(error).splitlines()[-1].strip()
        raise InputError(f"{where}: the checkpoint does not fit: {reason}; {hint}") from None
    absent = [name for name in missing if not name.endswith(_COUNTERS)]
    if absent:
        raise InputError(f"{where}: the checkpoint lacks {len(absent)} weights, "
                         f"{absent[0]} for one; {hint}")
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_meta:
                module.register_buffer(name, _counter(name, buffer), persistent=False)


def _counter(name: str, like: Tensor) -> Tensor:
    counting = torch.arange(like.shape[1]) if name == _COUNTERS[0] else torch.zeros(1)
    return counting.long().expand(like.shape)
