"""Batches through a strategy: order, attribution of errors, and memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from commands import run as minrisk
from commands import write
from minrisk import ChrF, InputError, MissingExtra, Ranking, Segment, Standard
from minrisk.engine.batches import BATCH
from minrisk.engine.ranking import run
from minrisk.io.record import Record
from minrisk.metric import Metric
from minrisk.metrics.comet import Comet


@dataclass
class Lengths:
    """Ranks by length, refuses the word `bad`, and remembers the batches it saw."""

    name: ClassVar[str] = "lengths"
    metric: ClassVar[Metric] = Comet()  # which is heavy, and never used
    batches: list[int] = field(default_factory=list)
    error: type[Exception] = InputError

    def rank(self, segments):
        self.batches.append(len(segments))
        if any("bad" in s.hypotheses for s in segments):
            raise self.error("a bad word")
        return [Ranking.of(np.array([len(h) for h in s.hypotheses], float)) for s in segments]


def records(*words):
    """A record per word; an exception is a record that could not be read."""
    return [
        Record(i, f"in:{i}", w if isinstance(w, Exception) else Segment([w, w + w], index=i))
        for i, w in enumerate(words)
    ]


def outcomes(results):
    return [(r.id, str(x) if isinstance(x, Exception) else x.best) for r, x in results]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_order_and_answers_do_not_depend_on_the_batch_size(size):
    strategy = Lengths()
    results = outcomes(run(strategy, records(*"abcde"), size))
    assert results == [(i, 1) for i in range(5)]
    assert max(strategy.batches) == min(size, 5)


def test_skipping_keeps_every_other_segment_of_the_batch():
    items = records("a", "bad", InputError("unreadable"), "c")
    assert outcomes(run(Lengths(), items, 4, "skip")) == [
        (0, 1), (1, "in:1: a bad word"), (2, "unreadable"), (3, 1),
    ]


def test_stopping_gives_what_came_before_and_then_the_error():
    results = run(Lengths(), records("a", "b", "bad", "d"), 4)
    assert outcomes([next(results), next(results)]) == [(0, 1), (1, 1)]
    with pytest.raises(InputError, match="in:2: a bad word"):
        next(results)


def test_an_input_that_breaks_off_gives_what_came_before():
    def broken():
        yield from records("a", "b")
        raise InputError("truncated")

    for on_error in ("stop", "skip"):
        results = run(Lengths(), broken(), 16, on_error)
        assert outcomes([next(results), next(results)]) == [(0, 1), (1, 1)]
        with pytest.raises(InputError, match="truncated"):
            next(results)


def test_errors_that_are_our_own_show_where_they_come_from_unless_they_are_skipped():
    with pytest.raises(ZeroDivisionError):
        list(run(Lengths(error=ZeroDivisionError), records("bad"), 1))
    skipped = outcomes(run(Lengths(error=ZeroDivisionError), records("bad", "a"), 2, "skip"))
    assert skipped == [(0, "in:0: ZeroDivisionError: a bad word"), (1, 1)]


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


@dataclass
class Small(Lengths):
    """Has memory for so many segments at a time."""

    room: int = 2

    def rank(self, segments):
        ranked = super().rank(segments)
        if len(segments) > self.room:
            raise OutOfMemoryError("CUDA out of memory")
        return ranked


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_does_not_fit_into_memory_is_tried_in_smaller_batches(on_error):
    strategy = Small()
    assert outcomes(run(strategy, records(*"abcde"), 5, on_error)) == [(i, 1) for i in range(5)]
    assert strategy.batches == [5, 2, 3, 1, 2]


def test_a_segment_that_never_fits_is_told():
    items = records("a", "b")
    assert outcomes(run(Small(room=0), items, 2, "skip")) == [
        (i, f"in:{i}: OutOfMemoryError: CUDA out of memory") for i in range(2)]
    with pytest.raises(InputError, match="in:0: OutOfMemoryError"):
        list(run(Small(room=0), items, 2))


def test_a_batch_is_as_large_as_the_metric_likes():
    strategy = Lengths()
    list(run(strategy, records(*"a" * 20)))
    assert strategy.batches == [BATCH, 20 - BATCH]
    seen = []

    def watched():
        for item in records("a", "b"):
            seen.append(item)
            yield item

    next(run(Standard(ChrF()), watched()))  # whose features are made for one segment at a time
    assert len(seen) == 1


def test_memory_does_not_grow_with_the_number_of_segments(tmp_path):
    def peak(count):
        path = write(tmp_path / "in.jsonl", *({"samples": ["a", "b"], "x": "x" * 5000},) * count)
        tracemalloc.start()
        try:
            assert minrisk("decode", path, "-o", tmp_path / "out.jsonl", "-q").code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # whatever is made once
    few, many = peak(20), peak(300)
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 300
    assert many < few + 300_000  # holding the records alone would take 1.5 megabytes


def test_any_error_that_a_user_can_mend_is_attributed():
    items = [Record(i, f"in:{i}", Segment(["bad" if i == 1 else "x"]), {}) for i in range(3)]
    results = [result for _, result in run(Lengths(error=MissingExtra), items, 3, "skip")]
    assert [isinstance(r, Ranking) for r in results] == [True, False, True]
