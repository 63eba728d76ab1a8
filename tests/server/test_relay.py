"""Requests that pass through are streamed as the upstream streams them."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

web = pytest.importorskip("aiohttp.web")

from commands import PATIENCE, read, wait_for
from mbr_server import serving, settings
from minrisk.openai import client as openai_client
from upstream import events, failing, mock_upstream


def chunk(finish=None, **delta):
    return {"id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {"id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
         "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}
CHUNKS = [chunk(role="assistant", content=""), chunk(content="the "), chunk(content="cat"),
          chunk("stop"), USAGE]


@pytest.fixture
def upstream():
    with mock_upstream("whole") as found:
        found.stream = events(*CHUNKS)
        yield found


@contextmanager
def open_stream(server, **fields):
    """A function that reads from the stream of a request until it has these bytes."""
    address = urlsplit(server.url)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}],
                       "stream": True, "temperature": 0, **fields}).encode()
    received = b""

    def read_until(content):
        nonlocal received
        while content not in received:
            more = connection.recv(1 << 16)
            assert more, received
            received += more
        return received

    with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                           b"Connection: close\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        yield read_until


@pytest.mark.parametrize("fields", [{}, {"temperature": 1, "minrisk": {"samples": 1}}],
                         ids=["temperature", "samples"])
def test_each_token_is_sent_before_the_next_one_comes(upstream, fields):
    upstream.stream = events(*CHUNKS, step_by_step=True)
    with serving(upstream.url) as server, open_stream(server, **fields) as read_until:
        for content in (b'"role"', b'"the "', b'"cat"', b'"stop"', b'"usage"'):
            upstream.step()  # the upstream sends one event, and waits
            received = read_until(content)
        assert b"[DONE]" not in received
        upstream.step()
        read_until(b"[DONE]")


async def odd_bytes(upstream, body):
    """JSON that no encoder of ours would write."""
    content = json.dumps(upstream.completion(body), indent=1).replace('"the', '"\\u0074he')
    return web.Response(text=f" {content}\n", content_type="application/json")


@pytest.mark.parametrize("n", [1, 3])
def test_the_bytes_of_an_answer_are_the_upstreams_own(n):
    with mock_upstream("the cat") as upstream, serving(upstream.url) as server:
        upstream.answer = odd_bytes
        reply = server.chat(temperature=0, n=n)
    [request] = upstream.bodies
    assert reply.body["minrisk"] == {"samples": n, "requested": n, "passed_through": True}
    assert reply.raw.startswith(b' {\n "id"')
    assert reply.raw.count(rb'"\u0074he cat"') == n
    assert reply.body["choices"] == upstream.completion(request)["choices"]


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_an_answer_that_is_no_strict_json_passes_through_as_json(number):
    async def loose(upstream, body):
        content = json.dumps(upstream.completion(body) | {"score": 0.5}).replace("0.5", number)
        return web.Response(text=content, content_type="application/json")

    with mock_upstream("the cat") as upstream, serving(upstream.url) as server:
        upstream.answer = loose
        reply = server.chat(temperature=0)
    assert number.encode() not in reply.raw
    assert reply.body["score"] is None


def test_the_stream_is_the_upstreams_own(upstream):
    options = {"include_usage": True}
    with serving(upstream.url) as server:
        reply = server.chat(stream=True, temperature=0, stream_options=options, seed=3)
    *found, end = reply.events
    assert end is None
    assert found[3].pop("minrisk") == {"samples": 1, "requested": 1,
                                           "passed_through": True}
    assert found == CHUNKS
    [body] = upstream.bodies
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hello"}], "seed": 3,
                    "stream": True, "stream_options": options, "temperature": 0}
    assert reply.headers["x-accel-buffering"] == "no"
    assert server.requests[0]["completion_tokens"] == 2
    assert server.requests[0]["drawn"] == 1


def test_several_samples_are_never_streamed_by_the_upstream(upstream):
    with serving(upstream.url) as server:
        assert server.chat(stream=True).events[1]["choices"][0]["delta"] == {"content": "whole"}
    assert "stream" not in upstream.bodies[0]


def test_what_was_streamed_is_recorded(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream.url, record=path) as server:
        server.chat(stream=True, temperature=0)
    [record] = read(path.read_text(encoding="utf-8"))
    assert (record["samples"], record["chosen"]) == (["the cat"], "the cat")
    assert record["usage"]["completion_tokens"] == 2


def test_plain_completions_are_streamed_too(upstream):
    texts = [{"id": "up", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}
             for text, finish in (("a", None), ("b", "stop"))]
    upstream.stream = events(*texts)
    with serving(upstream.url) as server:
        found = server.call("/v1/completions", {"model": "m", "prompt": "x", "temperature": 0,
                                                "stream": True}).events
    assert [one["choices"][0]["text"] for one in found[:-1]] == ["a", "b"]


def test_a_client_that_leaves_a_stream_frees_the_upstream(upstream):
    upstream.stream = events(*CHUNKS, step_by_step=True)
    with serving(upstream.url) as server:
        with open_stream(server) as read_until:
            upstream.step()
            read_until(b'"role"')
            assert "minrisk_drawing 1" in server.call("/metrics").raw.decode()
        assert upstream.left.acquire(timeout=PATIENCE)
        wait_for(lambda: server.log)
        assert server.requests[0]["status"] == 499
        wait_for(lambda: "minrisk_drawing 0" in server.call("/metrics").raw.decode())


def test_a_stream_that_falls_silent_shows_that_it_is_alive(upstream):
    upstream.stream = events(*CHUNKS, step_by_step=True)
    with (serving(upstream.url, settings(heartbeat=0.05)) as server,
          open_stream(server) as read_until):
        upstream.step()
        received = read_until(b": waiting")
        assert received.index(b'"role"') < received.index(b": waiting")
        for _ in CHUNKS:
            upstream.step()
        read_until(b"[DONE]")


def test_an_error_before_the_first_token_keeps_its_status_and_may_be_tried_again(upstream,
                                                                                monkeypatch):
    monkeypatch.setattr(openai_client, "FIRST_PAUSE", 0.01)
    upstream.stream = None
    upstream.answer = failing(429, "slow down", Retry_After="0")
    with serving(upstream.url, retries=1) as server:
        reply = server.chat(stream=True, temperature=0)
    assert (reply.status, reply.body["error"]["message"]) == (429, "slow down")
    assert len(upstream.bodies) == 2


def test_an_error_that_is_the_first_event_becomes_a_status(upstream):
    upstream.stream = events({"error": {"message": "too long", "code": 400}})
    with serving(upstream.url) as server:
        reply = server.chat(stream=True, temperature=0)
    assert (reply.status, reply.body["error"]["message"]) == (400, "too long")


@pytest.mark.parametrize("last", [{"error": {"message": "too long", "code": 400}}, "no JSON", "[]",
                                  '{"choices": ' + "[" * 5000, "[DONE"],
                         ids=["error", "text", "list", "deep", "cut"])
def test_an_error_after_the_first_token_is_an_event_and_is_not_tried_again(upstream, last):
    upstream.stream = events(chunk(content="the "), last, step_by_step=True)
    with serving(upstream.url, retries=2) as server:
        with open_stream(server) as read_until:
            upstream.step()
            read_until(b'"the "')
            upstream.step()
            received = read_until(b'data: {"error"')
        wait_for(lambda: server.log)
    assert b"[DONE]" not in received
    assert len(upstream.bodies) == 1
    assert server.requests[0]["error"] in ("400", "upstream_unavailable")


async def breaking(upstream, request, response):
    await response.write(b"data: %b\n\n" % json.dumps(chunk(content="the ")).encode())
    await upstream.steps.acquire()
    request.transport.abort()


async def ending(upstream, request, response):
    await response.write(b"data: %b\n\n" % json.dumps(chunk(content="the ")).encode())
    await upstream.steps.acquire()


@pytest.mark.parametrize("end", [breaking, ending])
def test_a_stream_that_breaks_is_told(upstream, end):
    upstream.stream = end
    with serving(upstream.url, retries=2) as server, open_stream(server) as read_until:
        read_until(b'"the "')
        upstream.step()
        received = read_until(b'data: {"error"')
    assert b"upstream_unavailable" in received
    assert len(upstream.bodies) == 1


def test_a_stream_ends_at_the_deadline(upstream):
    upstream.stream = events(*CHUNKS, step_by_step=True)
    with (serving(upstream.url, settings(deadline=1.0)) as server,
          open_stream(server) as read_until):
        upstream.step()
        assert b'"code": "deadline"' in read_until(b"deadline")
    assert upstream.left.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("fields", [{}, {"temperature": 1, "minrisk": {"samples": 2}}],
                         ids=["passing", "chosen"])
def test_a_client_that_does_not_read_is_disconnected(fields):
    text = "x" * (1 << 24)  # more than the buffers of two sockets hold
    with mock_upstream(text) as upstream:
        with (serving(upstream.url, settings("exact-match", write_timeout=0.3)) as server,
              open_stream(server, **fields)):
            wait_for(lambda: server.log)
        assert server.requests[0]["status"] == 499


def test_the_official_client_reads_a_stream_that_passes_through(upstream):
    openai = pytest.importorskip("openai")
    messages = [{"role": "user", "content": "x"}]
    with (serving(upstream.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client,
          client.chat.completions.stream(model="m", messages=messages, temperature=0) as stream):
        assert stream.get_final_completion().choices[0].message.content == "the cat"


def test_a_server_that_stops_cancels_streams_after_its_grace(upstream):
    upstream.stream = events(*CHUNKS, step_by_step=True)
    with serving(upstream.url, grace=0.3) as server, open_stream(server) as read_until:
        upstream.step()
        read_until(b'"role"')
        server.stop()
        assert b'"code": "stopping"' in read_until(b"stopping")


def test_many_streams_at_a_time_have_each_their_own_tokens():
    async def numbered(upstream, request, response):
        text = json.loads(await request.text())["messages"][0]["content"]
        for one in (chunk(content=text), chunk("stop"), "[DONE]"):
            data = one if isinstance(one, str) else json.dumps(one)
            await response.write(f"data: {data}\n\n".encode())

    with mock_upstream("whole") as upstream, serving(upstream.url) as server:
        upstream.stream = numbered

        async def main():
            return await asyncio.gather(*(asyncio.to_thread(
                server.chat, f"question {n}", stream=True, temperature=0) for n in range(20)))

        replies = asyncio.run(main())
    for number, reply in enumerate(replies):
        assert reply.events[0]["choices"][0]["delta"]["content"] == f"question {number}"
