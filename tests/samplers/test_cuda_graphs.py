"""What is kept of functions that are recorded as CUDA graphs; on any machine, with a stand-in."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")

from minrisk._torch import cuda_graphs
from minrisk._torch.cuda_graphs import CudaGraphs, Recording


class Key:
    """Equal to others with its number, as keys of two calls are."""

    def __init__(self, number: int) -> None:
        self.number, self.tensor = number, torch.arange(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


class Graph:
    def replay(self) -> None:
        pass


@pytest.fixture
def recorded(monkeypatch):
    """The numbers of the keys that were recorded, in order."""
    numbers: list[int] = []

    def record(function, inputs, pool):
        numbers.append(function(inputs))
        return Recording(Graph(), inputs, numbers[-1])

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(cuda_graphs, "record", record)
    return numbers


def run(graphs: CudaGraphs, key: Key) -> int:
    return graphs.run(key, [torch.tensor([1]), torch.tensor([2])], lambda inputs: key.number)


def test_what_comes_twice_is_recorded_once(recorded):
    graphs: CudaGraphs = CudaGraphs(2)
    assert [run(graphs, Key(7)) for _ in range(4)] == [7] * 4
    assert recorded == [7]


def test_the_recording_that_was_used_least_recently_goes_first(recorded):
    graphs: CudaGraphs = CudaGraphs(2)
    for number in (1, 1, 2, 2, 1, 3, 3, 1):
        assert run(graphs, Key(number)) == number
    assert recorded == [1, 2, 3]
    for _ in range(2):
        run(graphs, Key(2))
    assert recorded == [1, 2, 3, 2]


def test_what_a_graph_reads_lives_as_long_as_it(recorded):
    graphs: CudaGraphs = CudaGraphs(1)
    run(graphs, Key(1))
    first = Key(1)
    tensor = weakref.ref(first.tensor)
    run(graphs, first)
    del first
    for _ in range(3):
        run(graphs, Key(1))
    gc.collect()
    assert tensor() is not None
    for _ in range(2):
        run(graphs, Key(2))
    gc.collect()
    assert tensor() is None
