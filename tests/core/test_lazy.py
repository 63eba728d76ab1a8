"""Attributes that are computed on first use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from minrisk._core.lazy import lazy


class Slow:
    def __init__(self, threads: int) -> None:
        self.barrier = Barrier(threads, timeout=60)
        self.computed = 0

    @lazy
    def value(self) -> list[int]:
        self.computed += 1
        self.barrier.wait()  # until all threads compute it
        return []


def test_a_value_is_computed_once():
    slow = Slow(threads=1)
    assert slow.value is slow.value
    assert slow.computed == 1


def test_threads_that_compute_a_value_at_the_same_time_get_the_same_object():
    slow = Slow(threads=2)
    with ThreadPoolExecutor(2) as executor:
        first, second = executor.map(lambda _: slow.value, range(2))
    assert first is second is slow.value
