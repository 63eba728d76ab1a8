"""Functions as CUDA graphs: recorded once for a few sizes, replayed at the cost of one launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

K = TypeVar("K")
T = TypeVar("T")

_WARM_UP_RUNS = 1  # before a recording, in which libraries choose their kernels
_recording = Lock()  # before one, torch waits for the device, which another one does not survive


@dataclass(frozen=True)
class Recording(Generic[T]):
    """A CUDA graph with its inputs, and its outputs, which the next replay overwrites."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    outputs: T


class CudaGraphs(Generic[K, T]):
    """Recorded functions of a tensor of integers, by a key that says all that is fixed in them.

    They share their memory: outputs are to be used before this or another recording runs again.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[K] = set()
        # by the keys that they were recorded with, which hold tensors that the graphs read
        self._recorded: OrderedDict[K, Recording[T]] = OrderedDict()
        self._pool: Any = torch.cuda.graph_pool_handle()

    def run(self, key: K, inputs: list[Tensor], function: Callable[[Tensor], T]) -> T:
        """The outputs of the function of the inputs, one after the other, which is recorded when
        a key comes for the second time.
        """
        recorded = self._recorded.get(key)
        if recorded is not None:
            self._recorded.move_to_end(key)
            torch.cat(inputs, out=recorded.inputs)
        elif key not in self._seen:
            self._seen.add(key)
            return function(torch.cat(inputs))
        else:
            if len(self._recorded) >= self._limit:
                self._recorded.popitem(last=False)  # used least recently
            with _recording:
                recorded = record(function, torch.cat(inputs), self._pool)
            self._recorded[key] = recorded
            self._seen.discard(key)
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
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        outputs = function(inputs)
    return Recording(graph, inputs, outputs)


def next_power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least the number and `least`, so that sizes are few."""
    return max(least, 1 << (number - 1).bit_length())
