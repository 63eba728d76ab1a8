"""Where a model runs, with which numbers, and how much at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from minrisk.errors import InputError
from minrisk.metrics.neural import NeuralModel

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
           "fp16": torch.float16}
_TOKENS = {True: 32768, False: 4096}  # at once, with and without CUDA


class Runtime:
    def __init__(self, options: NeuralModel) -> None:
        self.device = _device(options.device)
        self.dtype = _dtype(options.dtype, self.device)
        self.tokens = options.tokens or _TOKENS[self.device.type == "cuda"]
        self._tf32 = options.dtype == "tf32"

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Whether products of float32 may drop digits; the caller's choice comes back after it."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self._tf32 else "highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The same for a model that runs batches of texts; one that is too large is told."""
        try:
            with self.precision():
                yield
        except torch.OutOfMemoryError:
            raise InputError(f"{self.device} has not enough memory for {self.tokens} tokens at "
                             "once; lower the option tokens (--metric.tokens)") from None


def _device(name: str) -> torch.device:
    if name != "auto":
        return _usable(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _usable(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # unknown to torch, or not in this machine
        raise InputError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}; "
                         "wanted auto, or a device that this machine has") from None


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name != "auto":
        return _DTYPES[name]
    return torch.bfloat16 if device.type == "cuda" else torch.float32
