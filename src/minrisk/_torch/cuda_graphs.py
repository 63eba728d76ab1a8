"""CUDA graphs: functions are captured for a few sizes and replayed at the cost of one launch."""

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

_WARM_UP_RUNS = 1  # runs before a capture, in which libraries choose their kernels
# one capture at a time: starting one synchronises the device, which aborts any other
_recording = Lock()


@dataclass(frozen=True)
class Recording(Generic[T]):
    """A captured CUDA graph with its input and output tensors; each replay overwrites them."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    outputs: T


class CudaGraphs(Generic[K, T]):
    """A cache of captured functions of an integer tensor; keys hold everything that is constant.

    Graphs share a memory pool: use outputs before any of them is replayed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[K] = set()
        # keys stay alive, because they hold tensors that the graphs read
        self._recorded: OrderedDict[K, Recording[T]] = OrderedDict()
        self._pool: Any = torch.cuda.graph_pool_handle()

    def run(self, key: K, inputs: list[Tensor], function: Callable[[Tensor], T]) -> T:
        """The function's outputs for the concatenated inputs; captured when a key occurs for the
        second time.
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
                self._recorded.popitem(last=False)  # the least recently used
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
    # thread_local, because other threads may use the device during the capture
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        outputs = function(inputs)
    return Recording(graph, inputs, outputs)


def next_power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least the number and `least`; keeps sizes few."""
    return max(least, 1 << (number - 1).bit_length())
