"""Clients of `serve` that send what they must not, read nothing, or name what does not exist."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import threading
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

pytest.importorskip("aiohttp")

from commands import PATIENCE, read, run, wait_for
from mbr_server import serving, settings, started
from minrisk.server.http import Hosts, Keys
from upstream import held, mock_upstream

SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]
LOOPBACK = Hosts(frozenset({"proxy.example"}))


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8001", "127.0.0.1.evil.example",
                                  "localhost.evil.example", "[::2]:80", "10.0.0.1", "@localhost"])
def test_other_host_names_are_refused_on_loopback(upstream, host):
    with serving(upstream.url, settings(hosts=LOOPBACK, show_page=True)) as server:
        for path in ("/", "/v1/models", "/metrics"):
            reply = server.call(path, Host=host)
            assert (reply.status, reply.body["error"]["code"]) == (421, "unknown_host")
    assert not upstream.bodies


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8001", "127.8.9.1",
                                  "[::1]:8001", "localhost.", "proxy.example", "Proxy.Example:443"])
def test_names_of_loopback_and_those_of_the_operator_are_served(upstream, host):
    with serving(upstream.url, settings(hosts=LOOPBACK)) as server:
        assert server.call("/v1/models", Host=host).status == 200


def test_the_command_checks_names_where_nothing_else_keeps_pages_out(upstream, tmp_path):
    (tmp_path / "keys").write_text("ours\n")
    for options, status in ((), 421), (("--allow-host", "my.proxy"), 200), (
            ("--api-key-file", tmp_path / "keys"), 200):
        process, url = started("--upstream", upstream.url, *options)
        with process:
            reply = asyncio.run(asked(url, {"Host": "my.proxy", "Authorization": "Bearer ours"}))
            process.terminate()
        assert reply == status


async def asked(url, headers):
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(
            f"{url}/v1/models", headers=headers) as response:
        return response.status


def test_a_name_that_cannot_be_encoded_does_not_end_the_metrics(upstream):
    with serving(upstream.url) as server:
        server.chat(model="\ud800")
        server.call("/v1/rank", {"candidates": ["a\ud800"], "model": "\udfff"})
        text = server.call("/metrics").raw.decode()
    assert 'model="other"' in text


def test_names_that_clients_invent_take_no_memory(upstream):
    with serving(upstream.url, settings(max_body=32 << 20)) as server:
        for number in range(3):
            assert server.chat(model=f"{number}" + "m" * 9_000_000).status == 400
            assert server.chat(model=f"invented-{number}").status == 200
        text = server.call("/metrics").raw.decode()
    assert "invented" not in text
    assert len(text) < 100_000
    assert max(map(len, server.log)) < 10_000


def test_a_known_model_has_a_label_of_its_own(upstream):
    with serving(upstream.url) as server:
        server.chat(model="m")
        assert 'model="m"' in server.call("/metrics").raw.decode()


def test_lone_surrogates_are_answered_and_recorded(upstream, tmp_path):
    record = tmp_path / "record.jsonl"
    with serving(upstream.url, record=record) as server:
        reply = server.chat("what \ud83d is this?")
    assert reply.status == 200
    done = run("decode", record)
    assert (done.code, done.records[0]["text"]) == (0, reply.text)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1e400"])
def test_a_number_that_is_none_of_a_double_is_refused(upstream, number):
    with serving(upstream.url) as server:
        reply = server.call("/v1/chat/completions", (
            f'{{"model": "m", "messages": [{{"role": "user", "content": "x"}}], "temperature": '
            f'{number}}}').encode())
    assert reply.status == 400
    assert not upstream.bodies


def test_a_request_that_is_too_large_names_the_limit(upstream):
    with serving(upstream.url, settings(max_body=1 << 20)) as server:
        reply = server.chat("x" * (1 << 20))
    assert reply.status == 413
    assert "1 MB" in reply.body["error"]["message"]
    assert "--max-body" in reply.body["error"]["message"]


DEEP = '{"type": "message", "role": "user", "content": ' * 300 + '"x"' + "}" * 300
BODIES = {  # of /v1/responses, and the status that each gets
    "deep": (f'{{"model": "m", "input": [{DEEP}]}}', 400),
    "many": (f'{{"model": "m", "input": [{",".join(["{}"] * 600_000)}]}}', 413),
    "large": (json.dumps({"model": "m", "input": "x" * (2 << 20)}), 413),
    "number": ('{"model": "m", "input": "x", "max_output_tokens": 1e999}', 400),
    "nan": ('{"model": "m", "input": "x", "top_p": NaN}', 400),
    "list": ('[{"model": "m", "input": "x"}]', 400), "text": ('"x"', 400), "none": ("", 400),
    "parts": (json.dumps({"model": "m", "input": [{"role": "user", "content": [
        {"type": "input_text", "text": "x"}] * 10_000 + [3]}]}), 400),
    "long name": (json.dumps({"model": "m", "input": "x", "y" * 100_000: 1}), 400),
    "long type": (json.dumps({"model": "m", "input": [{"type": "y" * 100_000}]}), 400),
    "long tool": (json.dumps({"model": "m", "input": "x", "tools": [{"type": "y" * 100_000}]}),
                  400),
    "surrogate": ('{"model": "m", "input": "\\ud83d", "instructions": "\\udfff"}', 200),
    "many items": (json.dumps({"model": "m", "input": [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}] * 10_000}), 200),
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_odd_bodies_of_responses_are_no_failures(upstream, tmp_path, kind, stream):
    body, status = BODIES[kind]
    if stream and body.startswith("{"):
        body = '{"stream": true, ' + body[1:]
    with serving(upstream.url, settings(max_body=1 << 21), record=tmp_path / "r.jsonl") as server:
        reply = server.call("/v1/responses", body.encode())
        assert server.respond().status == 200
    assert reply.status == status, reply.raw[:500]
    if status != 200:
        assert reply.body["error"]["type"] == "invalid_request_error"
        assert len(reply.raw) < 2_000


def test_keys_hosts_and_names_hold_for_responses(upstream):
    with serving(upstream.url, settings(hosts=LOOPBACK)) as server:
        reply = server.call("/v1/responses", {"model": "m", "input": "x"}, Host="evil.example")
        assert (reply.status, reply.body["error"]["code"]) == (421, "unknown_host")
        assert server.respond(model="m" * 300).status == 400
        server.respond(model="invented")
        assert "invented" not in server.call("/metrics").raw.decode()
    with serving(upstream.url, settings(keys=Keys(["a-key"]))) as server:
        assert server.respond().status == 401


def test_a_client_that_leaves_a_response_frees_the_upstream(upstream):
    upstream.answer = held

    async def leave(url, stream):
        import aiohttp

        body = {"model": "m", "input": "x", "stream": stream}
        async with aiohttp.ClientSession() as session:
            asking = asyncio.create_task(session.post(f"{url}/v1/responses", json=body))
            await asyncio.to_thread(upstream.arrived.acquire, timeout=PATIENCE)
            asking.cancel()

    with serving(upstream.url) as server:
        for stream in (False, True):
            asyncio.run(leave(server.url, stream))
            assert upstream.left.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP"])
def test_compressed_requests_are_refused_before_they_are_inflated(upstream, encoding):
    body = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % (b"x" * 10**6)
    with serving(upstream.url) as server:
        for content in (gzip.compress(body), b"no gzip at all"):
            assert server.call("/v1/chat/completions", content, **{
                "Content-Encoding": encoding}).status == 415
    assert not upstream.bodies


def test_a_client_that_does_not_read_its_answer_is_disconnected(upstream):
    text = "word " * 500_000  # more than the buffers of both sockets take
    body = json.dumps({"model": "m", "minrisk": {"return_candidates": True}, "messages": [
        {"role": "user", "content": "x"}]}).encode()
    with (mock_upstream(*[text + str(i) for i in range(4)]) as own,
          serving(own.url, settings("exact-match", write_timeout=0.3)) as server,
          ExitStack() as stack):
        address = urlsplit(server.url)
        for _ in range(2):
            client = stack.enter_context(socket.create_connection(
                (address.hostname, address.port), PATIENCE))
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                           b"Content-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: [one.get("error") for one in server.requests].count(
            "the client does not read") == 2)


def test_a_large_answer_comes_whole(upstream):
    with (mock_upstream(*["word " * 100_000 + str(i) for i in range(4)]) as own,
          serving(own.url) as server):
        body = server.chat(minrisk={"return_candidates": True}).body
    found = body["minrisk"]["candidates"]
    assert [len(one["message"]["content"]) for one in found] == [500_001] * 4


def test_a_client_that_leaves_a_stream_leaves_no_task(upstream):
    upstream.answer = held

    async def leave(url):
        import aiohttp

        async with aiohttp.ClientSession() as session:
            body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.content.readany()  # a comment: the stream has begun

    with serving(upstream.url, settings(heartbeat=0.05)) as server:
        tasks = server.tasks()
        asyncio.run(leave(server.url))
        wait_for(lambda: len(server.log) == 1)
        wait_for(lambda: not server.tasks() - tasks)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_costs_the_record_and_not_the_answer(upstream):
    with serving(upstream.url, record="/dev/full") as server:
        assert server.chat().status == 200
        assert server.requests[0]["not_recorded"]
        assert "minrisk_record_failures_total 1" in server.call("/metrics").raw.decode()


def test_a_line_that_was_torn_by_a_full_disk_is_removed_at_once(upstream, tmp_path, monkeypatch):
    path, write, is_full = tmp_path / "record.jsonl", os.write, threading.Event()

    def torn(file, content):
        if is_full.is_set() and os.path.samestat(os.fstat(file), path.stat()):
            write(file, bytes(content)[:20])
            raise OSError(28, "No space left on device")
        return write(file, content)

    monkeypatch.setattr(os, "write", torn)
    with serving(upstream.url, record=path) as server:
        server.chat()
        is_full.set()
        assert server.chat().status == 200
        is_full.clear()
        server.chat()
    assert len(read(path.read_text())) == 2


def test_temperature_zero_passes_through_visibly(upstream):
    with serving(upstream.url) as server:
        reply = server.chat(temperature=0)
        assert reply.body["minrisk"]["passed_through"] is True
        assert reply.headers["x-minrisk-passed-through"] == "true"
        assert server.requests[0]["passed_through"] is True
        assert "minrisk_passed_through_total 1" in server.call("/metrics").raw.decode()
        asked = server.chat(temperature=0, minrisk={"samples": 8})
        assert (asked.status, asked.body["error"]["param"]) == (400, "minrisk.samples")
        assert "passed_through" not in server.chat().body["minrisk"]
    assert len(upstream.bodies) == 2


def test_a_smallest_temperature_keeps_evaluations_from_passing_through(upstream):
    with serving(upstream.url, settings(min_temperature=0.7)) as server:
        body = server.chat(temperature=0).body
        assert server.chat(temperature=0, minrisk={"samples": 2}).status == 200
        server.chat(temperature=0.9)
    assert body["minrisk"]["samples"] == 4
    assert [sent["temperature"] for sent in upstream.bodies] == [0.7, 0.7, 0.9]


def test_json_is_compared_as_json_by_itself():
    texts = ['{"a": 1, "text": "some long words"}', '{"text": "some long words!", "a": 2}',
             '{ "a": 2.0, "text": "no" }', '{"a": 2}']
    wanted = {"response_format": {"type": "json_object"}}
    with mock_upstream(*texts) as own, serving(own.url, settings(allow=("chrf",))) as server:
        found = server.chat(**wanted).body
        by_client = server.chat(**wanted, minrisk={"metric": "chrf"}).body["minrisk"]
        plain = server.chat().body["minrisk"]
    assert "json-match" in found["minrisk"]["signature"]
    assert json.loads(found["choices"][0]["message"]["content"])["a"] == 2
    assert "chrf" in by_client["signature"]
    assert "chrf" in plain["signature"]


@pytest.mark.parametrize(("form", "status"), [("error", 422), ("text", 200)])
def test_an_answer_that_is_withheld_may_be_an_error_or_a_text(form, status):
    with (mock_upstream("red", "green", "blue", "grey") as own,
          serving(own.url, settings("exact-match", abstain=0.9, abstain_as=form,
                                    abstain_text="I am not sure.", stop_error=None)) as server):
        reply = server.chat()
        streamed = server.chat(stream=True)
    assert reply.status == status
    if form == "error":
        assert reply.body["error"]["code"] == "abstained"
        assert reply.headers["x-should-retry"] == "false"
        assert "abstained" in streamed.raw.decode()
    else:
        assert reply.text == "I am not sure."
        assert reply.body["minrisk"]["abstained"] is True


def test_an_alias_keeps_the_options_of_the_strategy(upstream):
    process, url = started(
        "--upstream", upstream.url, "--strategy", "n-by-s", "--subset", 2, "--metric", "bleu",
        "--metric.order", 2, "--alias", "quick=m,samples=3", "--alias", "other=m,metric=chrf")
    with process:
        found = [asyncio.run(signature(url, name)) for name in ("m", "quick", "other")]
        process.terminate()
    assert all("n-by-s" in one and "subset:2" in one for one in found)
    assert ["metric.order:2" in one for one in found] == [True, True, False]


async def signature(url, model):
    import aiohttp

    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}
    async with aiohttp.ClientSession() as session, session.post(
            f"{url}/v1/chat/completions", json=body) as response:
        return (await response.json())["minrisk"]["signature"]


def test_no_version_is_told(upstream):
    with serving(upstream.url) as server:
        assert server.chat().headers["Server"] == "minrisk"


def test_many_headers_are_refused(upstream):
    """By the HTTP library, from the version that the package asks for."""
    with serving(upstream.url) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), PATIENCE) as client:
            with suppress(ConnectionError):
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n"
                               + b"".join(b"x-%d: y\r\n" % i for i in range(100_000)) + b"\r\n")
            with suppress(ConnectionError):
                assert not client.recv(12).endswith(b"200")
        assert server.chat().status == 200


KEY = "sk-of-a-client-0123456789"
MALFORMED = {  # each with a key where a parser shows what it found
    "control": f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\1\r\n\r\n",
    "name": f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthor ization: Bearer {KEY}\r\n\r\n",
    "long": f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY * 2000}\r\n\r\n",
    "version": f"GET /v1/models?key={KEY} HTTP/9.9\r\nHost: x\r\n\r\n",
    "address": f"GET http://[{KEY} HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunk": f"POST /v1/rank HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n",
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_no_request_of_http_is_refused_and_not_logged(upstream, kind, capfd):
    with serving(upstream.url) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), PATIENCE) as client:
            client.sendall(MALFORMED[kind].encode())
            reply = HTTPResponse(client)
            reply.begin()
            error = json.loads(reply.read())["error"]
        assert (reply.status, reply.headers["Server"]) == (400, "minrisk")
        assert error["type"] == "invalid_request_error"
        assert all(one["error"] for one in server.requests)  # lines of JSON
    assert KEY not in "".join((error["message"], *server.log, *capfd.readouterr()))


def test_a_server_whose_upstream_is_down_says_so(tmp_path):
    process, _ = started("--upstream", "http://127.0.0.1:1/v1")
    with process:
        assert b"does not answer" in process.stderr.readline()
        process.terminate()
