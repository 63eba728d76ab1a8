"""Many clients, clients that leave, limits, keys, the end of a server, log, record and metrics."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from commands import PATIENCE, read, run, wait_for
from mbr_server import serving, settings, started
from minrisk.server.http import Keys
from minrisk.server.sampling import SampleLimit
from upstream import failing, held, mock_upstream

BODY = {"model": "m", "messages": [{"role": "user", "content": "a private question"}]}
SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


async def post_all(url, count, **fields):
    """The statuses of so many requests at a time."""
    async def one(session):
        async with session.post(f"{url}/v1/chat/completions", json=BODY | fields) as response:
            await response.read()
            return response.status

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        return await asyncio.gather(*(one(session) for _ in range(count)))


def test_hundreds_of_clients_at_a_time_are_answered_and_nothing_is_left(upstream):
    with serving(upstream.url, settings(samples=2), queue=600) as server:
        assert set(asyncio.run(post_all(server.url, 300))) == {200}
        wait_for(lambda: len(server.log) == 300)
        text = server.call("/metrics").raw.decode()
        assert "minrisk_in_flight 0" in text
        assert "minrisk_queued 0" in text
        assert "minrisk_drawing 0" in text
    assert upstream.open == 0


async def leave(url, upstream, count, **fields):
    """So many clients that leave when their requests have reached the upstream."""
    tasks = [asyncio.create_task(post_all(url, 1, **fields)) for _ in range(count)]
    for _ in range(count):
        await asyncio.to_thread(upstream.arrived.acquire, timeout=PATIENCE)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"temperature": 0}],
                         ids=["whole", "stream", "passing"])
def test_a_client_that_leaves_frees_the_upstream(upstream, fields):
    upstream.answer = held
    with serving(upstream.url) as server:
        asyncio.run(leave(server.url, upstream, 20, **fields))
        for _ in range(20):
            assert upstream.left.acquire(timeout=PATIENCE)
        wait_for(lambda: len(server.log) == 20)
        assert {one["status"] for one in server.requests} == {499}
        cancelled = 1 if "temperature" in fields else 4
        assert {one["cancelled"] for one in server.requests} == {cancelled}
        upstream.release()
        assert server.chat().status == 200
        assert 'status="499"' in server.call("/metrics").raw.decode()
    assert (upstream.open, upstream.aborted) == (0, 20)


def test_a_client_that_leaves_the_queue_is_never_sampled(upstream):
    upstream.answer = held
    with serving(upstream.url, concurrency=4) as server:
        first = threading.Thread(target=server.chat)
        first.start()
        assert upstream.arrived.acquire(timeout=PATIENCE)
        queued = lambda: server.call("/metrics").raw.decode()  # noqa: E731

        async def queue_and_leave():
            task = asyncio.create_task(post_all(server.url, 5))
            await asyncio.to_thread(wait_for, lambda: "minrisk_queued 5" in queued())
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(queue_and_leave())
        wait_for(lambda: "minrisk_queued 0" in queued())
        upstream.release()
        first.join(PATIENCE)
    assert len(upstream.bodies) == 1


def test_a_full_queue_says_when_to_come_back(upstream):
    upstream.answer = held
    with serving(upstream.url, concurrency=4, queue=0) as server:
        first = threading.Thread(target=server.chat)
        first.start()
        assert upstream.arrived.acquire(timeout=PATIENCE)
        reply = server.chat()
        assert (reply.status, reply.body["error"]["code"]) == (429, "queue_full")
        assert reply.headers["Retry-After"] == "1"
        assert "x-should-retry" not in reply.headers
        upstream.release()
        first.join(PATIENCE)
        assert server.chat().status == 200


def test_the_limit_is_over_samples_and_serves_in_order():
    async def main():
        limit, order = SampleLimit(4, 10), []

        async def work(name, size, event):
            async with limit.hold(size):
                order.append(name)
                await event.wait()

        ends = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.create_task(work(i, size, ends[i]))
                 for i, size in enumerate((3, 4, 1, 9))]
        await asyncio.sleep(0)
        assert (order, limit.in_use) == ([0], 3)  # the second waits, and the third behind it
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        await asyncio.sleep(0)
        assert (order, limit.in_use) == ([0, 2], 4)
        for end in ends:
            end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (order, limit.in_use) == ([0, 2, 3], 0)

    asyncio.run(main())


def test_a_turn_that_comes_while_its_request_is_cancelled_is_given_back():
    async def main():
        limit = SampleLimit(1, 10)
        gate = asyncio.Event()

        async def work():
            async with limit.hold(1):
                await gate.wait()

        first, second = asyncio.create_task(work()), asyncio.create_task(work())
        await asyncio.sleep(0)
        gate.set()
        await first  # the second one's turn has come
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert limit.in_use == 0

    asyncio.run(main())


def test_keys_are_wanted_everywhere_but_for_health(upstream):
    with serving(upstream.url, settings(keys=Keys(["one-key", "another"]))) as server:
        for path in ("/v1/models", "/metrics", "/v1/nothing"):
            reply = server.call(path)
            assert (reply.status, reply.body["error"]["code"]) == (401, "invalid_api_key")
        assert server.chat().status == 401
        for header in ("Bearer wrong", "Basic one-key", "one-key", "Bearer", "Bearer one-keyx"):
            assert server.call("/v1/models", Authorization=header).status == 401
        for key in ("one-key", "another"):
            assert server.call("/v1/models", Authorization=f"Bearer {key}").status == 200
        assert server.call("/health").status == server.call("/ready").status == 200
    assert not upstream.bodies


def test_no_key_is_ever_shown(upstream, tmp_path):
    ours, theirs = "client-key-1234567890", "upstream-key-0987654321"
    with serving(upstream.url, settings(keys=Keys([ours])), key=theirs,
                 record=tmp_path / "record.jsonl") as server:
        found = [server.call("/v1/chat/completions", BODY, Authorization=f"Bearer {ours}").raw]
        upstream.answer = failing(400, f"the key {theirs} cannot do this")
        found += [server.call(path, body, Authorization=f"Bearer {ours}").raw
                  for path, body in (("/v1/chat/completions", BODY), ("/metrics", None))]
    found += [(tmp_path / "record.jsonl").read_bytes(), "".join(server.log).encode()]
    for content in found:
        assert ours.encode() not in content
        assert theirs.encode() not in content
    assert upstream.headers[0]["Authorization"] == f"Bearer {theirs}"


def test_the_log_has_a_line_for_each_request_and_no_texts(upstream):
    with serving(upstream.url) as server:
        server.chat("a private question")
        server.call("/v1/nothing/private")
    first, second = server.requests
    assert first.keys() >= {"time", "id", "route", "status", "model", "requested", "drawn",
                            "distinct", "confidence", "signature", "prompt_tokens",
                            "completion_tokens", "seconds"}
    assert first["seconds"].keys() == {"request", "sampling", "choosing"}
    assert (second["status"], second["route"]) == (404, "unknown")
    for text in ("private", *SAMPLES):
        assert text not in "".join(server.log)


def test_metrics_count_what_happened(upstream):
    with serving(upstream.url) as server:
        server.chat()
        server.chat(minrisk={"samples": 99})
        text = server.call("/metrics").raw.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    route = "/v1/chat/completions"
    assert lines[f'minrisk_requests_total{{route="{route}",status="200",model="m"}}'] == "1"
    assert lines[f'minrisk_requests_total{{route="{route}",status="400",model="other"}}'] == "1"
    assert {kind: lines[f'minrisk_samples_total{{kind="{kind}"}}'] for kind in (
        "requested", "drawn", "distinct", "failed", "cancelled")} == {
        "requested": "4", "drawn": "4", "distinct": "3", "failed": "0", "cancelled": "0"}
    assert lines['minrisk_tokens_total{kind="completion"}'] == "12"
    assert lines['minrisk_request_seconds_bucket{le="+Inf"}'] == "2"
    assert lines["minrisk_sampling_seconds_count"] == lines["minrisk_choosing_seconds_count"] == "1"
    assert lines["minrisk_confidence_count"] == "1"


def test_clients_cannot_fill_the_metrics_with_names(upstream):
    with serving(upstream.url) as server:
        for number in range(150):
            server.chat(model=f'm"{number}\n')
        text = server.call("/metrics").raw.decode()
    lines = [line for line in text.splitlines() if line.startswith("minrisk_requests_total{")]
    assert len(lines) <= 101
    assert any('model="other"' in line for line in lines)


def test_decode_of_a_record_gives_the_same_choices(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream.url, settings(samples=3), record=path) as server:
        texts = [server.chat(f"question {number}").text for number in range(4)]
        server.call("/v1/completions", {"model": "m", "prompt": "the"})
        texts.append(server.chat("passed through", temperature=0).text)
    records = read(path.read_text(encoding="utf-8"))
    assert len(records) == 6
    assert records[0].keys() >= {"id", "messages", "samples", "counts", "usage", "seconds",
                                 "signature", "chosen"}
    assert records[4]["prompt"] == "the"
    decoded = run("decode", path)
    assert decoded.code == 0
    assert [one["text"] for one in decoded.records] == [one["chosen"] for one in records]
    assert [one["text"] for one in decoded.records if one["id"] != records[4]["id"]] == texts


def test_a_torn_record_is_cut_off_and_a_second_server_kept_out(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream.url, record=path) as server:
        server.chat()
        with pytest.raises(ValueError, match="another server"), serving(upstream.url, record=path):
            pass
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-10])
    with serving(upstream.url, record=path):
        assert path.read_bytes() == whole


def test_a_server_that_stops_finishes_its_requests_and_takes_no_others(upstream):
    upstream.answer = held
    replies = []
    with serving(upstream.url) as server:
        thread = threading.Thread(target=lambda: replies.append(server.chat()))
        thread.start()
        assert upstream.arrived.acquire(timeout=PATIENCE)
        server.stop()
        wait_for(lambda: server.call("/ready").status == 503)
        assert server.chat().status == 503
        assert server.call("/health").status == 200
        upstream.release()
        thread.join(PATIENCE)
    assert replies[0].status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_stops_does_not_wait_for_ever(upstream, stream):
    upstream.answer = held
    replies = []
    with serving(upstream.url, settings(heartbeat=0.05), grace=0.3) as server:
        thread = threading.Thread(target=lambda: replies.append(server.chat(stream=stream)))
        thread.start()
        assert upstream.arrived.acquire(timeout=PATIENCE)
        server.stop()
        thread.join(PATIENCE)
    [reply] = replies
    error = reply.events[-1] if stream else reply.body
    assert error["error"]["code"] == "stopping"
    assert reply.status == (200 if stream else 503)
    assert upstream.left.acquire(timeout=PATIENCE)


def test_slow_clients_are_shown_the_door(upstream):
    with serving(upstream.url, settings(body_timeout=0.2), first_request=0.2) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), PATIENCE) as silent:
            silent.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            assert closed(silent)
        with socket.create_connection((address.hostname, address.port), PATIENCE) as slow:
            slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                         b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
    assert not upstream.bodies


def closed(connection):
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_pages_of_other_origins_may_call_only_where_the_operator_says_so(upstream):
    with serving(upstream.url) as server:
        assert "access-control-allow-origin" not in server.call("/health").headers
        assert server.call("/v1/models", method="OPTIONS").status == 405
    with serving(upstream.url, settings(allow_origin="https://here")) as server:
        assert server.chat().headers["access-control-allow-origin"] == "https://here"
        assert server.call("/v1/models", method="OPTIONS").status == 204


def test_what_a_page_of_another_origin_can_send_is_refused(upstream):
    """A body that is said to be text needs no permission by CORS."""
    with serving(upstream.url) as server:
        body = json.dumps(BODY).encode()
        reply = server.call("/v1/chat/completions", body, **{"Content-Type": "text/plain"})
        assert reply.status == 415
        assert "expected application/json" in reply.body["error"]["message"]
    assert not upstream.bodies


def test_the_command_serves_until_sigterm(upstream, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "theirs-12345678901234567890")
    (tmp_path / "keys").write_text("ours\n")
    process, url = started("--upstream", upstream.url, "--samples", 4, "--metric", "bleu",
                           "--metric.order", 2, "--alias", "quick=m,samples=2,metric=chrf",
                           "--uncertainty", "--api-key-file", tmp_path / "keys")

    async def main():
        headers = {"Authorization": "Bearer ours"}
        async with (aiohttp.ClientSession(headers=headers) as session, session.post(
                f"{url}/v1/chat/completions", json=BODY | {"model": "quick"}) as response):
            return await response.json()

    with process:
        found = asyncio.run(main())["minrisk"]
        assert (found["samples"], "metric:chrf" in found["signature"]) == (2, True)
        assert found["uncertainty"]["clusters"] >= 1
        process.send_signal(signal.SIGTERM)
        logged = process.stderr.read()
        assert process.wait(PATIENCE) == 0
    assert json.loads(logged.splitlines()[0])["model"] == "quick"
    assert b"theirs" not in logged
    assert upstream.headers[0]["Authorization"] == "Bearer theirs-12345678901234567890"


def test_a_killed_server_leaves_whole_records(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    process, url = started("--upstream", upstream.url, "--samples", 4, "--record", path)
    answered = []

    def call():
        with suppress(aiohttp.ClientError, OSError):
            answered.extend(asyncio.run(post_all(url, 8)))

    with process:
        thread = threading.Thread(target=lambda: [call() for _ in range(50)])
        thread.start()
        wait_for(lambda: len(answered) >= 16)
        process.kill()
        process.wait(PATIENCE)
        thread.join(PATIENCE)
    lines = path.read_bytes().split(b"\n")
    records = [json.loads(line) for line in lines[:-1]]
    assert len(records) >= answered.count(200) >= 16


@pytest.mark.parametrize(("args", "words"), [
    ((), "needs --upstream"), (("--upstream", "ftp://x"), "must be an address"),
    (("--upstream", "http://x", "--alias", "x"), "expected NAME=MODEL"),
    (("--upstream", "http://x", "--alias", "a=b,sample=3"), "did you mean 'samples'"),
    (("--upstream", "http://x", "--alias", "a=b,samples=x"), "expected a number"),
    (("--upstream", "http://x", "--samples", 100),
     "--samples 100; expected at least --min-samples 1 and at most --max-samples 64"),
    (("--upstream", "http://x", "--alias", "a=b,samples=100"),
     "alias 'a': 100 samples; expected at least --min-samples 1"),
    (("--upstream", "http://x", "--api-key-file", "/dev/null"), "found no API key"),
    (("--upstream", "http://x", "--metric", "chrff"), "did you mean 'chrf'"),
    (("--upstream", "http://x", "--allow-strategy", "x"), "unknown strategy")])
def test_options_that_make_no_sense_are_told(args, words):
    result = run("serve", *args)
    assert result.code == 2
    assert words in result.err


def test_a_port_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--upstream", "http://x", "--port", taken.getsockname()[1])
    assert result.code == 2
    assert "choose another --port" in result.err


def test_a_configuration_file_has_the_same_options(upstream, tmp_path):
    (tmp_path / "serve.yaml").write_text(
        f"upstream: {upstream.url}\nsamples: 3\nmetric: {{name: bleu, order: 2}}\n"
        "alias: quick=m,samples=2\nabstain: 1\n")
    process, url = started("--config", tmp_path / "serve.yaml", "--samples", 5)
    with process:
        found = asyncio.run(post_one(url))["minrisk"]
        process.terminate()
    assert found["samples"] == 5
    assert "metric.order:2" in found["signature"]
    assert found["abstained"] is True  # the samples do not all mean the same


async def post_one(url):
    async with (aiohttp.ClientSession() as session,
                session.post(f"{url}/v1/chat/completions", json=BODY) as response):
        return await response.json()
