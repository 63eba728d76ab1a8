"""Upstreams that refuse, fail, or say too little; deadlines."""

from __future__ import annotations

import pytest

pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from aiohttp import web

from mbr_server import serving, settings
from minrisk.openai import client
from minrisk.server.responses import Completion
from openai_server import cut, dropped, few_places, half, written
from upstream import failing, held, mock_upstream


@pytest.fixture
def upstream(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    with mock_upstream("the cat sat", "a cat", "the cat sat", "dogs") as found:
        yield found


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refusal_of_the_upstream_is_passed_on_as_it_is(upstream, status):
    upstream.answer = failing(status, "not like this")
    with serving(upstream.url, per_request=1) as server:
        reply = server.chat()
    assert reply.status == status
    assert reply.body == {"error": {"message": "not like this", "type": "t", "code": "c"}}
    assert reply.headers["x-should-retry"] == "false"


def test_a_refusal_ends_all_requests_for_the_same_prompt(upstream):
    upstream.answer = failing(422)
    with serving(upstream.url, settings(samples=8), concurrency=1,
                 per_request=1) as server:
        server.chat()
    assert len(upstream.bodies) < 8  # one at a time, and one may be on its way


def test_a_busy_upstream_is_tried_again_and_then_its_headers_are_passed_on(upstream):
    upstream.answer = failing(429, Retry_After="0", X_RateLimit_Remaining="0")
    with serving(upstream.url, retries=2) as server:
        reply = server.chat()
    assert len(upstream.bodies) == 3
    assert reply.status == 429
    assert reply.headers["Retry-After"] == "0"
    assert reply.headers["X-RateLimit-Remaining"] == "0"
    assert reply.headers["x-should-retry"] == "false"


def failing_first(upstream, failures):
    """The upstream answers with these statuses, as long as there are any, and then as before."""
    plain = upstream.answer

    async def answer(own, body):
        if failures:
            return await failing(failures.pop())(own, body)
        return await plain(own, body)

    upstream.answer = answer
    return failures


def test_a_busy_upstream_that_does_not_say_for_how_long_is_tried_again(upstream):
    failures = failing_first(upstream, [429, 429])
    with serving(upstream.url, retries=2) as server:
        assert server.chat().status == 200
        failures += [429] * 3
        reply = server.chat()
    assert reply.status == 429
    assert "Retry-After" not in reply.headers
    assert len(upstream.bodies) == 6


def test_an_upstream_that_wants_a_long_wait_is_not_waited_for(upstream):
    upstream.answer = failing(429, Retry_After="300")
    with serving(upstream.url, retries=2) as server:
        reply = server.chat()
    assert (reply.status, reply.headers["Retry-After"]) == (429, "300")
    assert len(upstream.bodies) == 1


def test_a_failure_that_passes_is_not_noticed(upstream):
    failing_first(upstream, [500, 503])
    with serving(upstream.url, retries=2) as server:
        assert server.chat().status == 200


@pytest.mark.parametrize("status", [500, 503, 302, 401, 403])
def test_what_is_not_the_clients_fault_is_a_bad_gateway(upstream, status):
    upstream.answer = failing(status, "key sk-secret-of-the-upstream is wrong", Location="/")
    with serving(upstream.url, key="sk-secret-of-the-upstream") as server:
        reply = server.chat()
    assert reply.status == 502
    assert b"sk-secret" not in reply.raw
    assert reply.headers["x-should-retry"] == "false"
    assert "127.0.0.1" not in reply.body["error"]["message"]


def test_an_upstream_that_is_not_there_is_a_bad_gateway(upstream):
    with serving("http://127.0.0.1:1/v1") as server:
        reply = server.chat()
        assert (reply.status, reply.body["error"]["code"]) == (502, "upstream_unavailable")
        assert server.call("/ready").status == 503
        assert server.call("/health").status == 200


@pytest.mark.parametrize("fault", [
    dropped, half, cut, written(b"garbage\r\n\r\n"), few_places(2),
    # they close the connection, and say so: the next request must not be sent on it
    written(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"),
    written(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 14\r\n\r\n"
            b'{"choices":[]}'),
    written(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: 2\r\n\r\n{}"),
    written(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n"
            + b"[" * 200000),
], ids=["reset", "half", "cut", "garbage", "slots", "no choices", "empty", "compressed", "deep"])
def test_a_broken_answer_is_an_error_object_or_is_survived(server, fault):
    server.always = fault
    with serving(server.endpoint) as own:
        reply = own.chat()
        assert reply.status in (200, 502)
        assert ("error" in reply.body) == (reply.status == 502)
        server.always = None
        assert own.chat().status == 200


def test_an_answer_without_end_is_given_up(server, monkeypatch):
    monkeypatch.setattr(client, "MAX_BODY", 100_000)
    server.always = lambda h: h.send_until_left(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", b"x" * 10_000)
    with serving(server.endpoint) as own:
        assert own.chat().status == 502
    assert server.left.acquire(timeout=60)


def some_fail(upstream, fail, when):
    plain, seen = upstream.answer, iter(range(10**6))

    async def answer(own, body):
        return await (fail if when(next(seen)) else plain)(own, body)

    upstream.answer = answer


def test_enough_samples_are_an_answer_that_tells_how_many_there_are(upstream):
    some_fail(upstream, failing(500), lambda number: number % 2)
    with serving(upstream.url, settings(min_samples=2), per_request=1) as server:
        reply = server.chat()
    assert reply.status == 200
    assert (reply.body["minrisk"]["samples"], reply.body["minrisk"]["requested"]) == (2, 4)
    assert (server.requests[-1]["drawn"], server.requests[-1]["failed"]) == (2, 2)


def test_too_few_samples_are_none(upstream):
    some_fail(upstream, failing(500), lambda number: number)
    with serving(upstream.url, settings(min_samples=2), per_request=1) as server:
        assert server.chat().status == 502


def test_at_the_deadline_what_is_there_is_the_answer_if_it_is_enough(upstream):
    some_fail(upstream, held, lambda number: number > 1)
    chosen = settings(min_samples=2, deadline=3.0)  # long before which the first two are there
    with serving(upstream.url, chosen, per_request=1) as server:
        reply = server.chat()
    assert reply.status == 200
    assert reply.body["minrisk"]["samples"] == 2
    assert server.requests[-1]["cancelled"] == 2
    for _ in range(2):
        assert upstream.left.acquire(timeout=60)


def test_at_the_deadline_too_few_samples_are_a_timeout(upstream):
    upstream.answer = held
    with serving(upstream.url, settings(deadline=0.2)) as server:
        reply = server.chat()
        assert (reply.status, reply.body["error"]["code"]) == (504, "deadline")
        assert server.chat(temperature=0).status == 504
    assert upstream.left.acquire(timeout=60)


def test_an_upstream_that_falls_silent_is_given_up(upstream):
    upstream.answer = held
    with serving(upstream.url, idle=0.2) as server:
        assert server.chat().status == 502


def test_null_content_and_strange_choices_are_survived():
    strange = [{"role": "assistant", "content": None}, {"role": "assistant", "content": ["x", 1]},
               {"role": "assistant", "content": None, "tool_calls": [None, 3]},
               {"role": "assistant", "content": None, "refusal": "I will not"}]
    with mock_upstream(*strange) as own, serving(own.url) as server:
        reply = server.chat()
        assert reply.status == 200
        assert reply.body["choices"][0]["message"]["refusal"] == "I will not"
        assert server.chat(stream=True).events[-1] is None


def test_extra_choices_are_not_taken():
    with mock_upstream("a", "b") as own, serving(own.url) as server:
        async def more(upstream, body):
            return web.json_response(upstream.completion(body | {"n": 9}))

        own.answer = more
        assert server.chat().body["minrisk"]["samples"] == 4


def test_choices_of_the_other_interface_are_survived(upstream):
    async def answer(own, body):
        found = own.completion(body)
        for choice in found["choices"]:
            choice["text"] = choice.pop("message", {}).get("content", "x")
        return web.json_response(found)

    upstream.answer = answer
    with serving(upstream.url) as server:
        events = server.chat(stream=True).events
        assert events[1]["choices"][0]["delta"] == {"content": "the cat sat"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_bug_is_told_without_texts(upstream, monkeypatch, stream):
    texts = ["a private text"]

    def broken(*_):
        raise KeyError(texts[0])

    monkeypatch.setattr(Completion, "chunks" if stream else "headers",
                        broken if stream else property(broken))
    with serving(upstream.url) as server:
        reply = server.chat(stream=stream)
    error = reply.events[-1] if stream else reply.body
    assert "see the server's log" in error["error"]["message"]
    assert "KeyError" in "".join(server.log)
    assert "private" not in "".join(server.log)


def test_an_upstream_without_a_list_of_models_can_be_ready(server, monkeypatch):
    for status, ready in ((404, 200), (500, 503), (401, 503)):
        monkeypatch.setattr(server.RequestHandlerClass, "do_GET", raising=False,
                            value=lambda h, status=status: h.reply(status, {"error": "no"}))
        with serving(server.endpoint) as own:
            assert own.call("/ready").status == ready
