"""Functions as CUDA graphs: recorded once for a few sizes, replayed at the cost of one launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minrisk._torch.device import pinned, upload

K = TypeVar("K")
T = TypeVar("T")
Numbers = npt.NDArray[np.integer[Any]]

_WARM_UP_RUNS = 2  # runs before a recording, in which libraries choose their kernels


@dataclass(frozen=True)
class Recording(Generic[T]):
    """A CUDA graph with its inputs, and its outputs, which the next replay overwrites."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    outputs: T


class CudaGraphs(Generic[K, T]):
    """Recorded functions of an array of integers, by a key that says all that is fixed in them.

    They share their memory: outputs are to be used before another recording runs.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._recorded: dict[K, Recording[T]] = {}
        self._pool = _pool()

    def clear(self, is_obsolete: Callable[[K], bool] = lambda key: True) -> None:
        """Drops recordings of obsolete keys."""
        self._recorded = {key: recorded for key, recorded in self._recorded.items()
                          if not is_obsolete(key)}
        if not self._recorded:  # torch gives a pool up with the last graph in it
            self._pool = _pool()

    def run(self, key: K, inputs: Numbers, function: Callable[[Tensor], T], device: torch.device,
            example: Numbers | None = None) -> T:
        """The outputs of the function, recorded with the example (or these inputs) if it is new."""
        if key not in self._recorded:
            if len(self._recorded) >= self._limit:
                del self._recorded[next(iter(self._recorded))]  # the oldest
            example = inputs if example is None else example
            self._recorded[key] = record(function, upload(example, device), self._pool)
        recorded = self._recorded[key]
        recorded.inputs.copy_(pinned(inputs, device), non_blocking=True)
        recorded.graph.replay()
        return recorded.outputs


def record(function: Callable[[Tensor], T], inputs: Tensor, pool: Any) -> Recording[T]:
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP_RUNS):
            function(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # other threads may use the device meanwhile
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        outputs = function(inputs)
    return Recording(graph, inputs, outputs)


def next_power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least the number and `least`, so that sizes are few."""
    return max(least, 1 << (number - 1).bit_length())


def _pool() -> Any:
    return torch.cuda.graph_pool_handle()
