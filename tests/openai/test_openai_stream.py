"""Streaming: requests go out as there is capacity, results come as they finish, and it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import count, islice

import pytest

import openai_server
from minrisk._core.errors import InputError, UnusableError
from minrisk._core.process import progress_listener
from minrisk.openai.background import stream
from minrisk.samplers.openai import Endpoint
from openai_server import Faulty, status

SOON = 30  # seconds that a test waits for what takes none


@dataclass(frozen=True)
class Asked:
    prompt: str
    index: int


def asked(*prompts: str) -> list[Asked]:
    return [Asked(prompt, index) for index, prompt in enumerate(prompts)]


def sampler(server: Faulty, **options) -> Endpoint:
    return Endpoint("m", server.endpoint, **({"per_request": 4, "concurrency": 2} | options))


def prompt_of(handler) -> str:
    return handler.body["messages"][-1]["content"]


def is_streaming() -> bool:
    return "minrisk-requests" in {thread.name for thread in threading.enumerate()}


def test_a_stream_has_the_samples_of_a_batch(server):
    batch = sampler(server).sample(["one", "two", "three"], 6, seed=3)
    found = dict(sampler(server).stream(asked("one", "two", "three"), 6, seed=3))
    assert [found[request] for request in asked("one", "two", "three")] == batch
    assert not is_streaming()


def test_nobody_waits_for_the_slowest(server):
    """The first answer comes only when the last request is there."""
    last = threading.Event()

    def reply(handler):
        if prompt_of(handler) == "19":
            last.set()
        if prompt_of(handler) == "0":
            assert last.wait(SOON)
        openai_server.answer(handler)

    model = sampler(server)
    model.sample(["x"], 1)  # so that nothing waits to see what the server takes
    server.always = reply
    order = [request.index for request, _ in model.stream(asked(*map(str, range(20))), 1)]
    assert sorted(order) == list(range(20))
    assert order.index(0) > 10
    assert server.busiest == 2


def test_requests_are_taken_as_there_is_capacity(server):
    taken = []

    def requests():
        for index in count():
            taken.append(index)
            yield Asked("one", index)

    with closing(sampler(server).stream(requests(), 8)) as results:
        for yielded, _ in enumerate(results, 1):
            assert len(taken) <= yielded + 2  # two requests of four samples each keep both busy
            if yielded == 10:
                break


def test_connections_are_kept_all_the_time(server):
    assert len(list(sampler(server).stream(asked(*["one"] * 20), 4))) == 20
    assert server.connections <= 2


def test_closing_early_cancels_what_is_not_finished(server):
    taken = threading.Event()

    def requests():
        yield from asked("one", "two", "three")
        taken.set()
        yield Asked("four", 3)

    server.script = [lambda h: (taken.wait(SOON), openai_server.answer(h))]
    server.always = openai_server.silent
    with closing(sampler(server).stream(requests(), 4)) as results:
        next(results)
        assert all(server.waiting.acquire(timeout=SOON) for _ in range(2))
    assert all(server.left.acquire(timeout=SOON) for _ in range(2))
    assert not is_streaming()
    assert len(server.bodies) == 3


def test_ctrl_c_ends_at_once(server):
    def interrupt(handler):
        os.kill(os.getpid(), signal.SIGINT)
        openai_server.silent(handler)

    server.always = interrupt
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(sampler(server, concurrency=1).stream(asked("one", "two"), 4))
    finally:
        signal.signal(signal.SIGINT, before)
    assert server.left.acquire(timeout=SOON)
    assert not is_streaming()
    assert len(server.bodies) == 1


def test_an_input_that_breaks_off_costs_nothing_of_what_came_before(server):
    def requests():
        yield from asked("one", "two", "three")
        raise InputError("unreadable")

    results = sampler(server).stream(requests(), 2)
    assert {request.index for request, _ in islice(results, 3)} == {0, 1, 2}
    with pytest.raises(InputError, match="unreadable"):
        next(results)


def test_a_prompt_that_fails_comes_with_its_error(server):
    def picky(handler):
        bad = prompt_of(handler) == "bad"
        (status(400, "not with me") if bad else openai_server.answer)(handler)

    server.always = picky
    found = {r.index: result for r, result in sampler(server).stream(asked("a", "bad", "c"), 4)}
    assert isinstance(found[1], InputError)
    assert len(found[0]) == len(found[2]) == 4


def test_what_concerns_all_requests_is_raised_after_what_is_finished(server):
    server.script = [openai_server.answer, openai_server.answer]
    server.always = status(401)
    results = sampler(server, concurrency=1).stream(asked(*["one"] * 9), 4)
    found = []
    with pytest.raises(UnusableError, match="key"):
        found.extend(results)
    assert [request.index for request, _ in found] == [0, 1]
    assert not is_streaming()
    assert len(server.bodies) < 6  # nobody goes on asking


def test_results_that_finished_after_the_error_that_concerns_all_come_before_it():
    everything, taken = threading.Event(), asyncio.Event()

    async def work(item):
        if item != "slow":
            await taken.wait()
        if item == "fails":
            raise UnusableError("for all")
        if item == "slow":
            taken.set()
            for _ in range(10):  # until the others have finished
                await asyncio.sleep(0)
            everything.set()
            await asyncio.Event().wait()
        return item.upper()

    @asynccontextmanager
    async def connect(call):
        yield work

    results = stream(connect, iter(["first", "fails", "second", "slow"]), 4)
    assert next(results) == ("first", "FIRST")
    assert everything.wait(SOON)
    assert next(results) == ("second", "SECOND")
    with pytest.raises(UnusableError, match="for all"):
        next(results)
    assert not is_streaming()


def test_warnings_and_progress_come_in_the_thread_of_the_caller(server):
    server.always = openai_server.altered({"finish_reason": "length"})
    threads = set()
    with (progress_listener(lambda *_: threads.add(threading.current_thread())),
          pytest.warns(UserWarning, match="max_tokens")):
        list(sampler(server).stream(asked("one", "two"), 8))
    assert threads == {threading.current_thread()}


def test_a_mistake_of_ours_ends_the_stream(server, monkeypatch):
    monkeypatch.setattr("minrisk.openai.completions.read_choices", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(sampler(server).stream(asked("one", "two"), 1))
    assert not is_streaming()


def test_asynchronous_callers_get_the_same_samples(server):
    async def both():
        async with sampler(server).connect() as connection:
            return await asyncio.gather(*(connection.sample(r.prompt, 6, 3, r.index)
                                          for r in asked("one", "two")))

    assert asyncio.run(both()) == sampler(server).sample(["one", "two"], 6, seed=3)


def test_a_caller_that_leaves_cancels_its_requests(server):
    async def leave():
        async with sampler(server).connect() as connection:
            async with asyncio.timeout(0.2):
                await connection.sample("one", 4)

    server.always = openai_server.silent
    with pytest.raises(TimeoutError):
        asyncio.run(leave())
    assert server.left.acquire(timeout=SOON)


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_numbers_that_make_no_sense_are_told_before_anything_is_taken(server, n, seed):
    with pytest.raises(InputError, match=r"(n|seed) must"):
        sampler(server).stream(iter([]), n, seed)
