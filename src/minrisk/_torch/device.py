"""Device, number format and batch size of a model, and copies of arrays to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock, RLock
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minrisk._core.errors import InputError, warn
from minrisk._torch.int8 import int8_not_supported_reasons

T = TypeVar("T")
_launching = RLock()

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
           "fp16": torch.float16, "int8": torch.float32}  # int8 applies to some layers only
_TOKENS_PER_BATCH = {True: 32768, False: 4096}  # with and without CUDA


def choose_device(name: str, mps: bool = True) -> torch.device:
    """The device of this name; "auto" is CUDA, else Apple's GPU if `mps` is True, else the CPU."""
    if name != "auto":
        return _checked_device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if mps and torch.backends.mps.is_available() else "cpu")


def _checked_device(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # unknown to torch, or not on this machine
        raise InputError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}; expected "
                         "auto, or a device that this machine has") from None


def choose_dtype(name: str, device: torch.device,
                 on_cuda: torch.dtype = torch.bfloat16) -> torch.dtype:
    """The number format of this name; "auto" is `on_cuda` on CUDA and fp32 elsewhere."""
    if name != "auto":
        return _DTYPES[name]
    return on_cuda if device.type == "cuda" else torch.float32


def triton_not_supported_reasons(device: torch.device) -> list[str]:
    """Reasons why our Triton kernels cannot run on a device; none if they can."""
    reasons = []
    if device.type != "cuda":
        reasons.append(f"the device is {device.type}, not cuda")
    try:
        import triton  # noqa: F401 - comes with torch where it can run
    except ImportError:
        reasons.append("triton is not installed")
    return reasons


def current_device(device: torch.device) -> AbstractContextManager[None]:
    """Makes this the current CUDA device, on which Triton kernels and graphs are launched."""
    if device.type != "cuda":
        return nullcontext()
    chosen: AbstractContextManager[None] = torch.cuda.device(device)
    return chosen


def upload(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """The array as a tensor on the device: copied asynchronously, or on the CPU not at all."""
    tensor: Tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        tensor = tensor.pin_memory()  # torch does not reuse pinned memory before the copy is done
    return tensor.to(device, non_blocking=True)


def use_own_stream(device: torch.device) -> None:
    """Gives this thread a CUDA stream of its own, after models were loaded on the default stream.

    The stream has a higher priority than CUDA graphs, so that scores do not wait for another batch.
    """
    torch.cuda.default_stream(device).synchronize()
    stream: Any = torch.cuda.Stream(  # type: ignore[no-untyped-call,unused-ignore]
        device, priority=-1)
    torch.cuda.set_stream(stream)


class Runtime:
    """Device, number format and batch size of a metric's model; `on_cuda` is what "auto" means."""

    def __init__(self, device: str, dtype: str, tokens: int | None = None,
                 on_cuda: torch.dtype = torch.bfloat16) -> None:
        self.device = choose_device(device)
        self.dtype = choose_dtype(dtype, self.device, on_cuda)
        self.tokens = tokens or _TOKENS_PER_BATCH[self.device.type == "cuda"]
        self.may_fall_back = dtype == "auto" and self.dtype == torch.float16
        self.is_int8 = dtype == "int8"
        self._tf32 = dtype == "tf32"
        reasons = int8_not_supported_reasons(self.device) if self.is_int8 else []
        if reasons:
            raise InputError(f"dtype 'int8' cannot be used: {' and '.join(reasons)}; choose "
                             "another one")

    def checked(self, compute: Callable[[], T], is_valid: Callable[[T], bool]) -> T:
        """The result of a computation; if it overflows in fp16 that "auto" chose, it is repeated
        in bf16, which is used from then on.
        """
        before = self.dtype
        found = compute()
        if not self.may_fall_back or before != torch.float16 or is_valid(found):
            return found
        self._fall_back()
        return compute()

    def _fall_back(self) -> None:
        if self.dtype == torch.float16:  # another thread may already have switched
            self.dtype = torch.bfloat16
            warn("the model has numbers that are too large for fp16; continuing in bf16, which is "
                 "less precise (see the option dtype)")

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Sets the precision of float32 matrix products, and restores the caller's on exit.

        One thread at a time, because the setting is global; besides, interleaved kernel launches
        from several threads are slower than sequential ones.
        """
        with _launching, current_device(self.device):
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("high" if self._tf32 else "highest")
            try:
                yield
            finally:
                torch.set_float32_matmul_precision(before)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """`precision` around batches of a model; out-of-memory errors become an InputError."""
        try:
            with self.precision():
                yield
        except torch.OutOfMemoryError:
            raise InputError(f"{self.device} has not enough memory for {self.tokens} tokens at "
                             "once; lower the option tokens") from None


class InDtype(Generic[T]):
    """A model in the number format of its runtime; reloaded if that changes."""

    def __init__(self, runtime: Runtime, load: Callable[[], T]) -> None:
        self._runtime = runtime
        self._load = load
        self._dtype: torch.dtype | None = None
        self._lock = Lock()

    def get(self) -> T:
        with self._lock:
            if self._dtype != self._runtime.dtype:
                dtype = self._runtime.dtype
                self._loaded, self._dtype = self._load(), dtype
                if self._runtime.device.type == "cuda":
                    # because other streams will use the model, too
                    torch.cuda.current_stream(self._runtime.device).synchronize()
            return self._loaded
