"""Upstreams of `serve` that lie, fail or repeat what they must not."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

import minrisk
from commands import PATIENCE, wait_for
from mbr_server import serving, settings
from minrisk.io.weighting import Weighting
from minrisk.openai import client
from minrisk.openai.encoding import Mask
from minrisk.openai.responses import StreamMask
from minrisk.server.sampling import SampleCollector
from openai_server import silent
from upstream import events, held, mock_upstream

KEY = "sk-secret-of-the-upstream-0123456789"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)


@pytest.fixture
def upstream(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    with mock_upstream("the cat sat", "a cat", "the cat sat", "dogs") as found:
        yield found


def answering(content, status=200, **headers):
    async def answer(upstream, body):
        return web.Response(body=content.encode(), status=status, headers=headers,
                            content_type="application/json")

    return answer


def is_shown(*contents):
    """Whether the key can be read, escaped or not."""
    return any(KEY in content or KEY in content.encode().decode("unicode_escape", "replace")
               for content in contents)


@pytest.mark.parametrize("key", [KEY, ESCAPED], ids=["plain", "escaped"])
def test_a_key_in_an_error_is_masked(upstream, key):
    upstream.answer = answering(f'{{"error": {{"message": "not with {key}"}}}}', 400,
                                **{"x-ratelimit-key": KEY})
    with serving(upstream.url, key=KEY) as server:
        reply = server.chat()
    assert reply.status == 400
    assert "not with ***" in reply.body["error"]["message"]
    assert reply.headers["x-ratelimit-key"] == "***"
    assert not is_shown(reply.raw.decode(), *server.log)


@pytest.mark.parametrize("key", [KEY, ESCAPED], ids=["plain", "escaped"])
def test_a_key_in_an_event_with_an_error_is_masked(upstream, key):
    upstream.stream = events(f'{{"error": {{"message": "not with {key}", "code": 400}}}}')
    with serving(upstream.url, key=KEY) as server:
        reply = server.chat(temperature=0, stream=True)
    assert "not with ***" in reply.raw.decode()
    assert not is_shown(reply.raw.decode())


TEXTS = {  # fields of a stream, of which clients join the pieces
    "content": lambda text: {"delta": {"content": text}},
    "reasoning": lambda text: {"delta": {"content": "x", "reasoning_content": text}},
    "refusal": lambda text: {"delta": {"refusal": text}},
    "tool call": lambda text: {"delta": {"tool_calls": [
        {"index": 1, "type": "function", "function": {"arguments": text}}]}},
    "text": lambda text: {"text": text},
}


@pytest.mark.parametrize("field", TEXTS)
def test_a_key_in_pieces_of_a_stream_is_masked(upstream, tmp_path, field):
    """In what the client gets and in the record, wherever the key is cut, and whatever ends it."""
    def stream(*pieces, finish):
        chunks = [{"index": 0, "finish_reason": None} | TEXTS[field](piece) for piece in pieces]
        if finish is not None:
            chunks.append({"index": 0, "delta": {}, "finish_reason": finish})
        return events(*({"id": "up", "choices": [choice]} for choice in chunks))

    with serving(upstream.url, key=KEY, record=tmp_path / "record.jsonl") as server:
        for place in range(1, len(KEY)):
            upstream.stream = stream(f"ask {KEY[:place]}", KEY[place:] + KEY[:place],
                                     finish="stop" if place % 2 else None)
            reply = server.chat(temperature=0, stream=True)
            found = [text for event in reply.events[:-1] for choice in event["choices"]
                     for text in pieces(choice, field)]
            assert "".join(found) == f"ask ***{KEY[:place]}"
            assert reply.events[-1] is None
    assert KEY not in (tmp_path / "record.jsonl").read_text()


@pytest.mark.parametrize("field", ["content", "reasoning", "refusal", "tool call"])
def test_a_key_in_pieces_of_a_stream_of_events_is_masked(upstream, field):
    """Also where another item comes between its pieces."""
    def stream(*pieces):
        chunks = [{"index": 0, "finish_reason": None} | TEXTS[field](piece) for piece in pieces]
        chunks.insert(2, {"index": 0, "delta": {"tool_calls": [
            {"index": 0, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}})
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        return events(*({"id": "up", "choices": [choice]} for choice in chunks))

    with serving(upstream.url, key=KEY) as server:
        for place in range(1, len(KEY), 7):
            upstream.stream = stream("ask ", KEY[:place], KEY[place:], " ends", KEY[:3])
            reply = server.respond(temperature=0, stream=True)
            assert not is_shown(reply.raw.decode())
            output = json.dumps(reply.events[-1]["response"]["output"])
            deltas = {}
            for one in reply.events:
                if one["type"].endswith(".delta"):
                    deltas.setdefault(one["item_id"], []).append(one["delta"])
            text = "".join(max(deltas.values(), key=len))
            assert text.endswith(f"ask *** ends{KEY[:3]}")
            assert json.dumps(text)[1:-1] in output


def pieces(choice, field):
    """The texts of a field in a choice."""
    delta = choice.get("delta", {})
    found = {"content": delta.get("content"), "reasoning": delta.get("reasoning_content"),
             "refusal": delta.get("refusal"), "text": choice.get("text")}
    for call in delta.get("tool_calls", ()):
        assert call["index"] == 1
        found["tool call"] = call["function"]["arguments"]
    return [found[field]] if found.get(field) else []


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_in_parts_of_a_content_is_masked(upstream, tmp_path, stream):
    """In what the client gets, and in the record, which has one text."""
    contents = [[{"type": "text", "text": text} for text in texts] for texts in (
        ["ask ", KEY[:9]], [KEY[9:20], KEY[20:] + " or", KEY[:3]])]
    whole = {"index": 0, "finish_reason": "stop",
             "message": {"content": [*contents[0], *contents[1]]}}
    upstream.answer = answering(json.dumps({"choices": [whole]}))
    deltas = [{"index": 0, "delta": {"content": content}} for content in contents]
    deltas.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    upstream.stream = events(*({"choices": [delta]} for delta in deltas))
    with serving(upstream.url, key=KEY, record=tmp_path / "record.jsonl") as server:
        reply = server.chat(temperature=0, stream=stream)
    if stream:
        parts = [part for event in reply.events[:-1] for choice in event["choices"]
                 for part in choice["delta"].get("content", ())]
        assert "".join(part["text"] for part in parts) == f"ask *** or{KEY[:3]}"
    else:
        assert reply.text == f"ask *** or{KEY[:3]}"
    assert KEY not in (tmp_path / "record.jsonl").read_text()


def test_only_what_may_begin_the_key_waits_in_a_stream():
    mask = StreamMask(Mask(KEY))
    found = [chunk for piece in ("as", "k ", "sk-", "sec", "ond", KEY[:-1], KEY[-1] + "s")
             for chunk in mask.masked({"choices": [{"index": 0, "delta": {"content": piece}}]})]
    assert [one["choices"][0]["delta"]["content"] for one in found] == [
        "a", "sk ", "", "", "sk-second", "", "***"]
    assert mask.rest["choices"][0]["delta"]["content"] == "s"


MANY = [{"index": place} for place in range(200_000)]
BOMBS = {  # events that each take long, or come without end
    "tool calls": json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": MANY}}]}),
    "choices": json.dumps({"choices": MANY}),
    "depth": '{"choices": [{"index": 0, "delta": ' + '{"a": ' * 900 + "1" + "}" * 902 + "]}",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_an_event_that_takes_long_ends_its_stream_alone(upstream, kind):
    upstream.stream = events(BOMBS[kind])
    with serving(upstream.url) as server:
        for ask in (server.chat, server.respond):
            assert ask(temperature=0, stream=True).status in (200, 502)
            assert ask().status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_fails_leaves_nothing_to_the_garbage_collector(upstream, stream):
    """Which counts objects, and not the megabytes of what a traceback holds."""
    upstream.answer = answering("x" * 100_000)
    with serving(upstream.url) as server:
        assert server.chat().status == 502
        gc.collect()
        gc.disable()
        try:
            assert server.chat(stream=stream).status == 502
            wait_for(lambda: not any(type(one) is SampleCollector for one in gc.get_objects()))
        finally:
            gc.enable()


def test_numbers_that_json_has_not_are_not_passed_on(upstream):
    choice = ('{"index": 0, "message": {"role": "assistant", "content": "x"}, "score": NaN, '
              '"other": [-Infinity, 1e999], "finish_reason": "stop"}')
    upstream.answer = answering(f'{{"choices": [{choice}, {choice}]}}')

    def no_number(name):
        raise AssertionError(name)

    with serving(upstream.url, settings(samples=2)) as server:
        for fields in ({}, {"temperature": 0}):
            found = json.loads(server.chat(**fields).raw, parse_constant=no_number)
            choice = found["choices"][0]
            assert (choice["score"], choice["other"]) == (None, [None, None])


@pytest.mark.parametrize("nested", ["[", '{"a": '])
@pytest.mark.parametrize("depth", [300, 500, 900])
def test_a_response_that_is_nested_deeply_is_the_upstreams_fault(upstream, nested, depth):
    end = "]" if nested == "[" else "}"
    upstream.answer = answering(
        '{"choices": [{"index": 0, "finish_reason": "stop", "message": {"tool_calls": [{"function":'
        f' {{"name": "f", "arguments": {nested * depth}1{end * depth}}}}}]}}}}]}}')
    with serving(upstream.url, settings(samples=2)) as server:
        for fields in ({}, {"temperature": 0}, {"stream": True}):
            assert server.chat(**fields).status == 502
        assert all(one["error"] == "upstream_unavailable" for one in server.requests)


def test_log_probabilities_of_no_probability_are_none(upstream):
    choices = [{"index": i, "message": {"content": text}, "finish_reason": "stop",
                "logprobs": {"content": [{"logprob": logprob}]}}
               for i, (text, logprob) in enumerate([("a", 3.5), ("a b", True), ("a", -1)])]
    upstream.answer = answering(json.dumps({"choices": choices}))
    with serving(upstream.url, settings(samples=3, weighting=Weighting("logprobs"))) as server:
        reply = server.chat()
    assert reply.status == 200
    assert "weights:uniform" in reply.body["minrisk"]["signature"]  # not all samples have any


def with_usage(tokens, texts, **fields):
    choices = [{"index": i, "message": {"role": "assistant", "content": text},
                "finish_reason": "stop"} for i, text in enumerate(texts)]
    usage = {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}
    return answering(json.dumps({"choices": choices, "usage": usage, **fields}))


LONG = [f"a sentence of some {n} words " * 2 for n in ("two", "ten", "more", "six")]
TIMINGS = {"timings": {"predicted_n": 17}}


@pytest.mark.parametrize(("tokens", "texts", "fields"), [
    (17, LONG, TIMINGS), (17, ["yes", "", "", ""], TIMINGS), (3, LONG, {}), (8, LONG, {})],
    ids=["llama.cpp", "llama.cpp, one text", "fewer than texts", "longer than tokens are"])
def test_usage_that_cannot_be_of_all_samples_is_left_out(upstream, tokens, texts, fields):
    upstream.answer = with_usage(tokens, texts, **fields)
    with serving(upstream.url) as server:
        assert "usage" not in server.chat().body
    assert "completion_tokens" not in server.requests[0]


def test_usage_that_can_be_of_all_samples_is_kept(upstream):
    upstream.answer = with_usage(40, ["the cat sat on the mat"] * 4)
    with serving(upstream.url) as server:
        assert server.chat().body["usage"]["completion_tokens"] == 40


def test_the_deadline_is_kept_for_each_request_and_none_is_sent_again(upstream):
    """Also where the client's own time-outs pass at the same moment."""
    upstream.answer = held
    with serving(upstream.url, settings(deadline=0.5), idle=0.5, retries=2,
                 concurrency=4) as server:
        replies = []

        def ask():
            begin = time.monotonic()
            reply = server.chat()
            replies.append((reply.status, reply.body["error"]["code"], time.monotonic() - begin))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        upstream.release()
    assert {reply[:2] for reply in replies} == {(504, "deadline")}
    assert len(upstream.bodies) <= 6
    assert max(reply[2] for reply in replies) < 0.5 * 20


def test_a_cancellation_that_a_time_out_hides_is_no_reason_to_try_again(server):
    """As with a time-out of the HTTP library that passes at the moment of the cancellation."""
    async def main():
        async with client.Client(server.endpoint, retries=3) as own:
            attempts = []

            async def once(*_):
                attempts.append(1)
                try:
                    await asyncio.sleep(PATIENCE)
                except asyncio.CancelledError:
                    raise client.TemporaryError("a time-out") from None

            own._once = once
            task = asyncio.create_task(own.post("x", {}))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            return task.cancelled(), len(attempts)

    assert asyncio.run(main()) == (True, 1)


JUDGES = {"judge": lambda url: minrisk.Judge("m", url, timeout=PATIENCE * 10),
          "reward": lambda url: minrisk.Reward("m", endpoint=url, timeout=PATIENCE * 10)}


@pytest.mark.parametrize("end", ["deadline", "client", "stop"])
@pytest.mark.parametrize("kind", JUDGES)
def test_a_judge_that_never_answers_is_cancelled(upstream, server, kind, end):
    """Long before its own time-out."""
    server.always = silent
    seconds = 0.5 if end == "deadline" else PATIENCE * 10
    with serving(upstream.url, settings(JUDGES[kind](server.endpoint), choosing_deadline=seconds),
                 grace=0.2) as running:
        if end == "client":
            leave(running.url, server.waiting)
        elif end == "deadline":  # which may pass before a busy machine has asked the judge
            wait_for(lambda: (running.chat().status, server.waiting.acquire(blocking=False))
                     == (504, True))
        else:
            with ThreadPoolExecutor() as pool:
                reply = pool.submit(running.chat)
                assert server.waiting.acquire(timeout=PATIENCE)
                running.stop()
                assert reply.result().status == 503
        assert server.left.acquire(timeout=PATIENCE)


def leave(url, arrived):
    """Ask, and go when something has arrived."""
    address = urlsplit(url)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
    with socket.create_connection((address.hostname, address.port), PATIENCE) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
                       b"application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert arrived.acquire(timeout=PATIENCE)


def test_models_with_hostile_names_do_not_end_the_metrics(upstream):
    async def models(_):
        return web.json_response({"data": [{"id": "m\ud800\n\"x"}, {"id": "m" * 300}]})

    upstream.models = models
    with serving(upstream.url) as server:
        server.chat(model="m\ud800\n\"x")
        assert server.call("/metrics").status == 200
