"""The native core's kernels of sampling, for tensors on a CPU. Torch does the same, more slowly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minrisk._core.native import native_core

_DTYPES = (torch.float32, torch.bfloat16)


def not_supported_reasons(device: torch.device, dtype: torch.dtype = torch.float32) -> list[str]:
    """Reasons why torch must do it; none if these kernels can."""
    reasons = []
    if dtype not in _DTYPES:
        reasons.append(f"the number format is {dtype}")
    if device.type != "cpu":
        reasons.append(f"the device is {device.type}, not cpu")
    if native_core() is None:
        reasons.append("the native core is not there")
    return reasons


def likely(logits: Tensor, least: float, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tokens whose log-probability is at least `least`, and always the most likely one.

    For logits (R, V), returns unordered tokens and their log-probabilities, (R, width) each, padded
    with 0 and -inf, the logsumexp (R,) of the logits, and the sum and the number (R, 2) of those
    that are not -inf.
    """
    found = _results(len(logits), width)
    _call("likely", _known(logits), least, *found)
    return found


def best(logits: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The `width` most likely tokens for logits (R, V), best first, and the same as `likely`."""
    found = _results(len(logits), width)
    _call("best", _known(logits), *found)
    return found


def _results(rows: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (torch.empty(rows, width, dtype=torch.int64), torch.empty(rows, width),
            torch.empty(rows), torch.empty(rows, 2))


def _known(logits: Tensor) -> Tensor:
    return logits if logits.dtype in _DTYPES else logits.float()


def self_attention(queries: Tensor, keys: Tensor, values: Tensor, self_kv: Tensor,
                   paths: Tensor) -> Tensor:
    """(R, heads, D) attention of rows to the tokens of their paths (R, T) in the cache
    (2, slots, heads, D), to which the new keys and values are written first.
    """
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _call("self_attention", queries, keys, values, self_kv, paths, out)
    return out


def cross_attention(queries: Tensor, cross_kv: Tensor, source: Tensor, lengths: Tensor) -> Tensor:
    """(R, heads, D) attention of rows to their sources (R,), whose keys and values are
    (2, S, heads, L, D).
    """
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _call("cross_attention", queries, cross_kv, source, lengths, out)
    return out


def _call(name: str, *arguments: Any) -> None:
    """Tensors that are written to must be contiguous, or a copy would be written to."""
    native = native_core()
    assert native is not None
    arrays = [_array(own) if isinstance(own, Tensor) else own for own in arguments]
    getattr(native.sampling, name)(*arrays, torch.get_num_threads())


def _array(tensor: Tensor) -> Any:
    """A tensor as NumPy has it; bfloat16, which NumPy lacks, as integers of 16 bits."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    return tensor.contiguous().numpy()
