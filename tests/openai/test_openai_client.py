"""The HTTP client against servers that are slow, broken, hostile, gone, or talk too much."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import threading
import traceback

import pytest

import openai_server
from commands import run
from minrisk._core.errors import InputError, MinriskError, MissingExtra, UnusableError
from minrisk._core.sampler import PartialError
from minrisk.openai import client
from minrisk.openai.client import Client
from minrisk.openai.encoding import Mask
from minrisk.openai.errors import BadRequestError, Detail, seconds_to_wait
from minrisk.openai.responses import check_response
from minrisk.samplers.openai import Endpoint
from openai_server import Faulty, status, written

KEY = "sk-not/for-anybody-s-eyes"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SOON = 30  # seconds that a test waits for what takes none


def sampler(server: Faulty, **options) -> Endpoint:
    return Endpoint("m", server.endpoint, **({"per_request": 4, "retries": 0} | options))


def failure(server: Faulty, **options) -> MinriskError:
    """The error of a prompt."""
    with pytest.raises(MinriskError) as raised:
        sampler(server, **options).sample(["one"], 1)
    error = raised.value
    return error.results[0] if isinstance(error, PartialError) else error


def test_connections_are_kept(server):
    sampler(server, concurrency=1).sample(["one", "two", "three"], 8)
    assert len(server.bodies) == 6
    assert server.connections == 1


def test_no_thread_is_left(server):
    sampler(server).sample(["one", "two"], 8)
    assert "minrisk-requests" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("start", [HEAD + b"Content-Length: 3000\r\n\r\n", HEAD + b"X-Slow: "],
                         ids=["body", "header"])
def test_a_request_has_a_deadline_however_slowly_the_answer_comes(server, start):
    """Each byte comes in time, and all of them only after half a minute and more."""
    server.always = lambda h: h.send_until_left(start, b"x", pause=0.01)
    assert "0.3 s" in str(failure(server, timeout=0.3))
    assert server.left.acquire(timeout=SOON)


def test_an_answer_has_a_largest_size(server, monkeypatch):
    monkeypatch.setattr(client, "MAX_BODY", 10**6)
    server.always = lambda h: h.send_until_left(HEAD + b"\r\n", b" " * 10**5)
    assert "larger than 1,000,000 bytes; request fewer or shorter samples" in str(failure(server))
    assert server.left.acquire(timeout=SOON)


def test_an_error_without_end_is_read_no_further_than_it_is_shown(server):
    head = b"HTTP/1.1 400 Bad\r\n\r\n"
    server.always = lambda h: h.send_until_left(head, b"go away " * 1000)
    assert "400 go away go away" in str(failure(server))
    assert server.left.acquire(timeout=SOON)


def test_compressed_answers_are_not_inflated(server):
    bomb = gzip.compress(b" " * 10**7)
    server.always = lambda h: h.send(200, bomb, Content_Encoding="gzip")
    assert "the response is compressed (gzip)" in str(failure(server))


@pytest.mark.parametrize("answer", [
    b"nonsense\r\n\r\n", b"", HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    HEAD + b"Content-Length: -5\r\n\r\n{}", HEAD + b"Content-Length: x\r\n\r\n{}",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    HEAD + b"X: " + b"y" * 10**5 + b"\r\n\r\n",
    HEAD + b"\r\n" + b"[" * 10**5, HEAD + b"\r\n" + b'{"choices":' * 10**4, HEAD + b"\r\n\xff\xfe",
    HEAD + b"\r\n" + b"1" * 10**4, HEAD + b"\r\nnull", HEAD + b'\r\n{"choices": [null]}',
    HEAD + b'\r\n{"choices": {"text": "x"}}', HEAD + b'\r\n{"choices": [{"text": 3}]}',
    HEAD + b'\r\n{"choices": [{"message": "x"}]}', b"HTTP/1.1 999 What\r\n\r\n",
    b"HTTP/1.1 500 X\r\n\r\n" + b"[" * 10**5, b"HTTP/1.1 400 X\r\n\r\n" + b"[" * 10**5,
    b'HTTP/1.1 400 X\r\nContent-Length: 99\r\n\r\n{"error": {"message": {"a": 1}, "param": 3}}',
], ids=lambda answer: answer[len(HEAD):len(HEAD) + 24] or answer)
def test_answers_that_are_none_are_told_in_one_line(server, answer):
    server.always = written(answer)
    with pytest.raises(MinriskError) as raised:
        sampler(server).sample(["one"], 1)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


def test_old_servers_are_understood(server):
    body = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
    server.always = written(b"HTTP/1.0 200 OK\r\n\r\n" + body)
    assert sampler(server, logprobs=False).sample(["one"], 1)[0][0].text == "yes"


LARGE_ANSWERS = {
    "choices": json.dumps({"choices": [{"text": "a"}] * 10_000}),
    "words without choices": json.dumps({"x": "a " * 100_000}),
    "no whole JSON": "[" * 100_000, "no JSON": "x" * 100_000,
    "many values": "[" + "1," * 100_000 + "1]",
}


@pytest.mark.parametrize("kind", LARGE_ANSWERS)
def test_large_answers_are_read_and_checked_elsewhere(server, kind):
    """All of it, for the time that it takes depends on content."""
    computed = []

    async def compute(function, *args):
        computed.append(args)
        return await asyncio.to_thread(function, *args)

    def check(found):
        assert threading.current_thread() is not threading.main_thread()
        return check_response(found)

    async def ask():
        async with Client(server.endpoint, retries=0) as own:
            own.compute = compute
            return await own.post("x", {}, check)

    server.always = written(HEAD + b"\r\n" + LARGE_ANSWERS[kind].encode())
    if kind == "choices":
        assert asyncio.run(ask()).is_large
    else:
        with pytest.raises(MinriskError) as raised:
            asyncio.run(ask())
        assert len(str(raised.value)) < 600
    assert len(computed) == 1


def test_an_error_keeps_no_large_answer(server):
    """Which its traceback would hold, for as long as somebody keeps the error."""
    async def ask():
        async with Client(server.endpoint, retries=0) as own:
            return await own.post("x", {}, check_response)

    server.always = written(HEAD + b"\r\n" + b"x" * 10**6)
    with pytest.raises(MinriskError) as raised:
        asyncio.run(ask())
    errors = [raised.value, raised.value.__cause__]
    sizes = [sys.getsizeof(value) for error in errors
             for frame, _ in traceback.walk_tb(error.__traceback__)
             for value in frame.f_locals.values()]
    assert max(sizes) < 10**5


ECHOES = {
    "401": lambda h, key: status(401, f"bad key {key}")(h),
    "500": lambda h, key: status(500, f"bad key {key}")(h),
    "cut": lambda h, key: status(401, f"{'x' * 280}{key}")(h),
    "no choices": lambda h, key: h.reply(200, {"headers": {"Authorization": f"Bearer {key}"}}),
    "escaped": lambda h, key: h.send(
        401, json.dumps({"error": f"key {key}"}).replace("/", "\\/").encode()),
    "status line": lambda h, key: written(f"HTTP/1.1 {key}\r\n\r\n".encode())(h),
    "reason": lambda h, key: written(f"HTTP/1.1 401 {key}\r\n\r\n".encode())(h),
    "header": lambda h, key: written(HEAD + f"{key}\r\n\r\n{{}}".encode())(h),
    "coding": lambda h, key: h.send(200, b"{}", Content_Encoding=key),
    "param": lambda h, key: h.reply(400, {"error": {"message": key, "param": key, "code": key}}),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_a_key_that_a_server_repeats_is_not_shown(server, monkeypatch, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.always = lambda h: echo(h, h.headers["Authorization"].removeprefix("Bearer "))
    error = failure(server)
    shown = f"{error} {error!r} {vars(error)} {error.__cause__!r} {error.__context__!r}"
    assert server.keys == [f"Bearer {KEY}"]
    assert KEY[3:10] not in shown


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_key_that_a_server_repeats_is_not_written(server, monkeypatch, field):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    message = {"content": "x", field: f"you are {KEY}"}
    server.always = lambda h: h.send(200, json.dumps({"choices": [
        {"message": message, "finish_reason": KEY}]}).replace("/", "\\/").encode())
    [[sample]] = sampler(server, logprobs=False).sample(["one"], 1)
    assert "you are ***" in (sample.text, sample.reasoning)
    assert sample.finish_reason == "***"


def test_a_key_that_a_server_repeats_in_escapes_is_not_written(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    escaped = "".join(f"\\u{ord(character):04X}" for character in KEY)
    body = '{"choices": [{"message": {"content": "you are KEY"}}]}'.replace("KEY", escaped)
    server.always = lambda h: h.send(200, body.encode())
    [[sample]] = sampler(server, logprobs=False).sample(["one"], 1)
    assert sample.text == "you are ***"


@pytest.mark.parametrize(("key", "echo"), [
    ("a key of several words", "a key\n\tof several words"),
    (r"escapes\x07 belong to it", "escapes\x07 belong to it"),
    ("wide  gaps belong to it", "wide  gaps belong to it")])
def test_a_key_is_not_shown_whatever_becomes_of_the_text_around_it(key, echo):
    for text in (echo, f"{'x ' * 140}{echo}", f"{echo} {'x' * 10_000}"):
        assert key not in Mask(key).line(text)


def test_a_key_that_is_a_word_changes_no_sample(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    server.always = openai_server.altered({"message": {"content": "a test"}})
    assert sampler(server).sample(["one"], 1)[0][0].text == "a test"


def test_a_server_cannot_write_to_the_terminal(server):
    server.always = status(400, "\x1b]0;renamed\x07 \x9b31m \u202e \r\n hidden")
    assert r"400 \x1b]0;renamed\x07 \x9b31m \u202e hidden" in str(failure(server))


def test_halves_of_surrogate_pairs_are_replaced(server, tmp_path):
    server.always = openai_server.altered({"message": {"content": "a \ud800 cat \U0001f600"}})
    [[sample]] = sampler(server).sample(["one"], 1)
    assert sample.text == "a \ufffd cat \U0001f600"


def test_a_server_that_worked_and_is_gone_is_waited_for(monkeypatch):
    with openai_server.serving() as server:
        port = server.server_port
        model = sampler(server, retries=3)
        expected = model.sample(["one"], 4)
        server.shutdown()
        server.server_close()
    revived = []
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            revived.append(openai_server.start(port))

    monkeypatch.setattr(client, "sleep", sleep)
    try:
        assert model.sample(["one"], 4) == expected
        assert len(pauses) == 2
    finally:
        for server in revived:
            server.shutdown()
            server.server_close()


def test_a_server_that_stays_away_ends_the_run(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)
    with openai_server.serving() as server:
        model = sampler(server, retries=3)
        model.sample(["one"], 4)
        server.shutdown()
        server.server_close()
    with pytest.raises(UnusableError, match="3 retries"):
        model.sample(["one"], 4)


def test_one_prompt_that_a_server_breaks_on_is_no_outage(server):
    def brittle(handler):
        bad = "bad" in handler.body["messages"][-1]["content"]
        (status(500, "crashed") if bad else openai_server.answer)(handler)

    server.always = brittle
    model = sampler(server, retries=1, concurrency=1)
    with pytest.raises(PartialError) as raised:
        model.sample(["one", "bad", "two", "bad", "bad", "three"], 4)
    assert [isinstance(result, list) for result in raised.value.results] == [
        True, False, True, False, False, True]
    with pytest.raises(PartialError) as raised:
        model.sample(["one", "bad", "bad", "bad", "two"], 4)
    assert isinstance(raised.value.results[-1], UnusableError)
    with pytest.raises(UnusableError, match="500 crashed"):
        sampler(server).sample(["bad"], 4)  # nothing has worked yet


def test_an_answer_of_another_protocol_is_told_at_once(server):
    server.always = lambda h: h.reply(200, [{"content": "of llama.cpp's own"}])
    with pytest.raises(UnusableError, match="choices"):
        sampler(server, retries=6).sample(["one"], 1)
    assert len(server.bodies) == 1


def test_an_empty_account_ends_the_run_at_once(server):
    server.always = lambda h: h.reply(429, {"error": {"message": "pay", "code":
                                                      "insufficient_quota"}})
    with pytest.raises(UnusableError, match=r"429 pay; .*account"):
        sampler(server, retries=6).sample(["one"], 1)
    assert len(server.bodies) == 1


def test_a_prompt_that_is_forbidden_is_not_the_key_if_others_worked(server):
    server.script = [openai_server.answer, status(403, "flagged")]
    with pytest.raises(PartialError, match="403 flagged") as raised:
        sampler(server, concurrency=1).sample(["one", "two", "three"], 4)
    assert [isinstance(result, list) for result in raised.value.results] == [True, False, True]


def test_an_unusable_server_ends_a_run_with_what_was_finished(server, tmp_path):
    sources = tmp_path / "in.txt"
    sources.write_text("one\ntwo\n")
    server.always = status(401)
    result = run("sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "1")
    assert result.code == 2
    assert "401 no; check the key" in result.err


@pytest.mark.parametrize("variables", [
    {"http_proxy": "HERE"}, {"http_proxy": "HERE", "no_proxy": "elsewhere.invalid"}])
def test_a_proxy_of_the_environment_is_used(server, monkeypatch, variables):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("HERE", f"http://127.0.0.1:{server.server_port}"))
    model = Endpoint("m", "http://nowhere.invalid/v1")
    assert len(model.sample(["one"], 1)[0]) == 1
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    with pytest.raises(UnusableError, match="reach"):
        Endpoint("m", "http://nowhere.invalid/v1").sample(["one"], 1)


def test_the_client_tells_apart_what_others_need_to(server):
    async def ask():
        async with Client(server.endpoint, retries=0) as found:
            answer = await found.post("chat/completions", {"messages": [{"content": "one"}]})
            server.always = lambda h: h.reply(422, {"detail": [
                {"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": "x"}]})
            with pytest.raises(BadRequestError) as raised:
                await found.post("chat/completions", {})
            return answer, raised.value

    answer, error = asyncio.run(ask())
    assert answer.body["choices"][0]["message"]["content"].startswith("one")
    assert int(answer.headers["content-length"]) > 0
    assert (error.status, error.detail.text) == (
        422, "body.seed: Extra inputs are not permitted")


@pytest.mark.parametrize(("raw", "detail"), [
    ('{"error": {"message": "m", "param": "p", "code": "c"}}', Detail("m", "p", "c")),
    ('{"error": "m"}', Detail("m")), ('{"message": "m", "type": "t"}', Detail("m")),
    ('[{"error": {"code": 400, "message": "m"}}]', Detail("m")), ('{"detail": "m"}', Detail("m")),
    ('{"object": "e", "message": {"detail": [{"msg": "m", "loc": ["a", 0]}]}}', Detail("a.0: m")),
    ("m", Detail("m")), ("[]", Detail("[]")), ('{"error": 3}', Detail('{"error": 3}')),
    ('{"error": {"message": ""}}', Detail('{"error": {"message": ""}}')), ("", Detail("")),
])
def test_errors_are_read_in_all_their_forms(raw, detail):
    assert Detail.of(raw) == detail


@pytest.mark.parametrize(("header", "seconds"), [
    (None, 0), ("3", 3), ("0.5", 0.5), ("-1", 0), ("nan", 0), ("inf", float("inf")), ("soon", 0),
    ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 21 Oct 2015 07:28:00 +99999999999999999999", 0)])
def test_the_time_to_wait_is_read_in_all_its_forms(header, seconds):
    assert seconds_to_wait(header) == seconds


@pytest.mark.parametrize("before", range(270, 300))
def test_a_key_is_masked_before_a_line_is_cut(before):
    assert KEY[:4] not in Mask(KEY).line("x" * before + KEY)


def test_the_mask_shows_itself_without_the_key():
    assert KEY not in repr(Mask(KEY))


def test_without_aiohttp_it_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"minrisk\[openai\]"):
        sampler(server).sample(["one"], 1)
    with pytest.raises(MissingExtra):
        list(sampler(server).stream([], 1))


def test_errors_of_the_input_are_no_errors_of_the_server(server):
    with pytest.raises(InputError, match="messages"):
        sampler(server, prompt="{source}").sample([[{"role": "user"}]], 1)
    assert not server.bodies
