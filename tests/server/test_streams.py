"""Streams: one event after the other, signs of life before, and errors that keep their status."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from commands import wait_for
from mbr_server import serving, settings
from minrisk.server.app import Server
from minrisk.server.responses import ApiError
from upstream import failing, held, mock_upstream

SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


def test_a_stream_has_a_role_the_content_and_a_reason_to_finish(upstream):
    with serving(upstream.url) as server:
        reply = server.chat(stream=True)
    assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    *events, end = reply.events
    assert end is None
    assert [one["choices"][0]["delta"] for one in events] == [
        {"role": "assistant", "content": ""}, {"content": "the cat sat"}, {}]
    assert [one["choices"][0]["finish_reason"] for one in events] == [None, None, "stop"]
    assert {one["object"] for one in events} == {"chat.completion.chunk"}
    assert len({one["id"] for one in events}) == 1
    assert events[-1]["minrisk"]["samples"] == 4
    assert not any("usage" in one for one in events)
    assert "stream" not in upstream.bodies[0]


def test_usage_comes_in_a_chunk_of_its_own_exactly_if_wanted(upstream):
    with serving(upstream.url) as server:
        *events, last, _ = server.chat(stream=True, stream_options={"include_usage": True}).events
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 12
    assert all(one["usage"] is None for one in events)
    assert "stream_options" not in upstream.bodies[0]


def test_tool_calls_have_an_index():
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
             for i in range(2)]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    with mock_upstream(message) as own, serving(own.url) as server:
        events = server.chat(stream=True).events
    deltas = [one["choices"][0]["delta"] for one in events[:-1]]
    found = [request for delta in deltas for request in delta.get("tool_calls", [])]
    assert found == [request | {"index": number} for number, request in enumerate(calls)]


def test_several_choices_and_plain_completions_are_streamed(upstream):
    with serving(upstream.url) as server:
        events = server.chat(stream=True, n=2).events[:-1]
        assert [one["choices"][0]["index"] for one in events] == [0, 0, 0, 1, 1, 1]
        [event, end] = server.call("/v1/completions", {"model": "m", "prompt": "x",
                                                       "stream": True}).events
    assert end is None
    assert event["choices"][0]["text"] == "the cat sat"
    assert event["object"] == "text_completion"


def test_a_request_that_passes_through_is_streamed_too(upstream):
    with serving(upstream.url) as server:
        events = server.chat(stream=True, temperature=0).events
    assert events[1]["choices"][0]["delta"] == {"content": "the cat sat"}


def test_an_error_before_the_first_sample_keeps_its_status(upstream):
    upstream.answer = failing(422, "no such field")
    with serving(upstream.url) as server:
        reply = server.chat(stream=True)
    assert (reply.status, reply.body["error"]["message"]) == (422, "no such field")


@contextmanager
def open_stream(server):
    """A function that reads the stream of a request until some bytes have come so many times."""
    address = urlsplit(server.url)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}],
                       "stream": True}).encode()
    received = b""

    def read_until(content, times=1):
        nonlocal received
        while received.count(content) < times:
            more = connection.recv(1 << 16)
            assert more, received
            received += more
        return received

    with socket.create_connection((address.hostname, address.port), 60) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                           b"Connection: close\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%b"
                           % (len(body), body))
        yield read_until


def test_a_silent_stream_shows_that_it_is_alive(upstream):
    upstream.answer = held
    with serving(upstream.url, settings(heartbeat=0.05)) as server, open_stream(server) as read:
        assert read(b": waiting", 2).startswith(b"HTTP/1.1 200")
        upstream.release()
        received = read(b"[DONE]")
    assert received.index(b": waiting") < received.index(b"the cat sat")


def test_an_error_after_the_first_byte_is_an_event(upstream, monkeypatch):
    async def broken(*_):
        raise ApiError(504, "too late", code="deadline")

    monkeypatch.setattr(Server, "_choose", broken)
    upstream.answer = held
    with serving(upstream.url, settings(heartbeat=0.05)) as server:
        with open_stream(server) as read:
            read(b": waiting")
            upstream.release()
            assert b'"code": "deadline"' in read(b"data: {")
        wait_for(lambda: server.log)
    assert server.requests[-1]["error"] == "deadline"
