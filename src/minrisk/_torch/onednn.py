"""Linear layers on CPUs by oneDNN, with weights in its own blocked format.

On many CPUs this takes less than half the time of torch's default, which is MKL. The operators are
internal to torch, where they serve its compiler, and may change.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor, nn

_TYPICAL_ROWS = 64  # for which oneDNN chooses the format
_MEASURED = ("x86_64", "AMD64")


def not_supported_reasons(device: torch.device, dtype: torch.dtype) -> list[str]:
    """Reasons why layers must stay as they are; none if `OneDnnLinear` can run them."""
    reasons = []
    if device.type != "cpu":
        reasons.append(f"the device is {device.type}, not cpu")
    if platform.machine() not in _MEASURED:
        reasons.append(f"nothing was measured on {platform.machine()}")
    if not torch.backends.mkldnn.is_available():
        reasons.append("torch was built without oneDNN")
    return reasons or _failure(dtype)


def _failure(dtype: torch.dtype) -> list[str]:
    """Tries the operators, because a version of torch may lack them, or a CPU the number format."""
    try:
        with torch.inference_mode():
            OneDnnLinear(nn.Linear(4, 2, dtype=dtype))(torch.zeros(1, 4, dtype=dtype))
    except (AttributeError, RuntimeError, TypeError) as error:
        return [f"torch {torch.__version__} does not run {dtype} layers of oneDNN here "
                f"({type(error).__name__})"]
    return []


def _operator(name: str) -> Any:
    """An operator of torch, or None if this version has none of that name."""
    return getattr(torch.ops.mkldnn, name, None)


class OneDnnLinear(nn.Module):
    """A linear layer that keeps only oneDNN's copy of its weights; for inference."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._bias = None if linear.bias is None else linear.bias.detach()
        self._weight: Tensor = _operator("_reorder_linear_weight")(linear.weight.detach(),
                                                                   _TYPICAL_ROWS)
        self._run = _operator("_linear_pointwise")

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self._run(inputs, self._weight, self._bias, "none", [], "")
        return found

    def with_bias(self, bias: Tensor | None) -> Self:
        """The same weights with another bias."""
        other = copy(self)
        other._bias = bias
        return other


def replace_linear_layers(model: nn.Module, kind: Callable[[nn.Linear], nn.Module]) -> None:
    """Replaces all linear layers inside a model, one by one, so that memory does not double."""
    for name in [name for name, part in model.named_modules() if type(part) is nn.Linear]:
        replace_module(model, name, kind(model.get_submodule(name)))


def replace_module(model: nn.Module, name: str, module: nn.Module) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, module)
