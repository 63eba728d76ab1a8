"""Choosing: what is chosen is what decode chooses, and models see requests together."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import PATIENCE
from generators import FEW
from mbr_server import settings
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.responses import read_choices
from minrisk.plugins import Metric
from minrisk.server.app import Server
from minrisk.server.executor import BatchThread, RankingExecutor
from minrisk.server.monitoring import Trace
from minrisk.server.requests import read_request
from minrisk.server.sampling import SampleLimit, new_collector

EXECUTOR = RankingExecutor(2)
TEXTS = st.lists(st.text("ab c\n{}[]1.\u0301é", min_size=1, max_size=12), min_size=2, max_size=8)


class Given:
    """A source of these texts."""

    def __init__(self, texts):
        self.texts = texts

    async def sample(self, request, waves, admission, report):
        body = {"choices": [{"index": i, "message": {"role": "assistant", "content": text},
                             "finish_reason": "stop"} for i, text in enumerate(self.texts)]}
        report(CompletionResponse(read_choices(body), None, body), len(self.texts))


class Remembered:
    """A recorder in memory."""

    def __init__(self):
        self.fields = None

    def append(self, line):
        self.fields = json.loads(line)
        done = Future()
        done.set_result(None)
        return done


@pytest.mark.parametrize("metric", ["chrf", "bleu", "exact-match", "json-match"])
@FEW
@given(texts=TEXTS)
def test_the_answer_is_what_decode_makes_of_the_record(metric, texts):
    chosen = settings(metric, len(texts), stop_error=None)
    request = read_request("chat", {"messages": [{"role": "user", "content": "x"}]}, chosen)
    recorder = Remembered()

    async def main():
        server = Server(Given(texts), chosen, SampleLimit(64, 1), recorder)
        server.executor = EXECUTOR  # whose processes are started once
        collector = new_collector(request, chosen, EXECUTOR)
        return await server.complete(request, collector, Trace("id", "route"))

    body = asyncio.run(main()).body
    record = recorder.fields
    if record is None:  # nothing but white space
        assert not any(text.strip() for text in texts)
        return
    ranking = minrisk.decode(record["samples"], counts=record["counts"], metric=metric)
    assert record["chosen"] == ranking.text
    assert body["choices"][0]["message"]["content"].strip() in (ranking.text, ranking.text.strip())
    assert record["signature"].startswith(f"strategy:standard|metric:{metric}")
    assert sum(record["counts"]) == sum(bool(text.strip()) for text in texts)


@dataclass(frozen=True)
class Slow(Metric):
    """A metric with a model, which is held until somebody lets it go, and counts its batches."""

    name: ClassVar[str] = "slow"
    loads_model: ClassVar[bool] = True
    begun: ClassVar[threading.Semaphore] = threading.Semaphore(0)
    released: ClassVar[threading.Event] = threading.Event()
    batches: ClassVar[list[int]] = []

    def features(self, texts):
        self.batches.append(len(texts))
        self.begun.release()
        assert self.released.wait(PATIENCE)
        if "bad" in texts:
            raise minrisk.InputError("a bad text")
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs)


@pytest.fixture
def slow():
    Slow.batches.clear()
    Slow.released.clear()
    yield minrisk.Standard(Slow())
    Slow.released.set()


def test_requests_of_a_model_that_come_meanwhile_are_one_batch(slow):
    segments = [minrisk.Segment([f"{'x' * i}", "yy", "zzz"]) for i in range(1, 9)]

    async def main():
        executor = RankingExecutor(1)
        first = asyncio.create_task(executor.rank(slow, segments[0]))
        await asyncio.to_thread(Slow.begun.acquire, timeout=PATIENCE)
        others = [asyncio.create_task(executor.rank(slow, one)) for one in segments[1:]]
        await asyncio.sleep(0)  # they are in the queue
        others[0].cancel()
        Slow.released.set()
        found = await asyncio.gather(first, *others[1:])
        await executor.close()
        return found

    found = asyncio.run(main())
    assert len(found) == 7
    assert len(Slow.batches) == 2  # the first alone, and all that waited and did not leave


def test_a_segment_that_fails_in_a_batch_costs_no_other(slow):
    Slow.released.set()

    async def main():
        executor = RankingExecutor(1)
        found = await asyncio.gather(*(executor.rank(slow, minrisk.Segment(texts)) for texts in (
            ["a", "bb"], ["bad", "x"], ["ccc"])), return_exceptions=True)
        await executor.close()
        return found

    one, error, other = asyncio.run(main())
    assert isinstance(error, minrisk.InputError)
    assert one.ranking.order.size == 2
    assert other.ranking.order.size == 1


def test_a_job_whose_kind_is_no_key_costs_no_other():
    thread = BatchThread("test", lambda items: items, lambda item: item, lambda item: 4)
    with pytest.raises(TypeError):
        thread.submit(["unhashable"]).result(PATIENCE)
    assert thread.submit("good").result(PATIENCE) == "good"
    thread.close()


def test_a_batch_whose_size_cannot_be_told_costs_one_job_and_no_other():
    def size(item: str) -> int:
        if item == "bad":
            raise ValueError("no size")
        return 4

    thread = BatchThread("test", lambda items: items, lambda item: 0, size)
    with pytest.raises(ValueError, match="no size"):
        thread.submit("bad").result(PATIENCE)
    assert thread.submit("good").result(PATIENCE) == "good"
    thread.close()
