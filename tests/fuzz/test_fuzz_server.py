"""Whatever a server sends: samples that can be read again, or an error, and never the key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

from commands import run
from fuzzing import altered, dump, fuzz, json_values, mutated
from hostile_server import HostileServer, Reply
from minrisk._core.errors import MinriskError
from minrisk._core.sampler import Sample, Samples, columns
from minrisk.io.segments import SampleReader
from minrisk.openai import client
from minrisk.openai.encoding import Mask
from minrisk.openai.errors import Detail, seconds_to_wait
from minrisk.openai.responses import check_response, read_choices, read_usage
from records import files, parse, read

pytest.importorskip("aiohttp", reason="needs the extra minrisk[openai]")

KEY = r'sk-proj "quoted\x07" 0123456789abcdef'
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in KEY)
CHAT = {
    "id": "1", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": "Bonjour, le monde", "reasoning_content": "Hm."},
         "logprobs": {"content": [{"token": "Bon", "logprob": -0.5}, {"logprob": -1.25}]}},
        {"index": 1, "finish_reason": "length", "message": {"content": KEY},
         "logprobs": {"content": [{"token": KEY, "logprob": -3}]}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 11,
              "completion_tokens_details": {"reasoning_tokens": 3}}}
PARTS = {"choices": [{"message": {"content": [{"type": "text", "text": "Bonjour"}, {
    "type": "reasoning", "text": KEY}], "tool_calls": [], "refusal": None}}]}
COMPLETIONS = {"choices": [{"text": "Bonjour", "finish_reason": "stop",
                            "logprobs": {"token_logprobs": [-0.5, -1], "tokens": ["Bon", KEY]}}],
               "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
ERRORS = [
    {"error": {"message": f"wrong key: {KEY}", "param": "temperature", "code": "unsupported"}},
    {"detail": [{"loc": ["body", "logprobs", KEY], "msg": "extra inputs are not permitted"}]},
    [{"error": {"message": "candidateCount: n must be below 3", "status": KEY}}],
    {"error": "max_tokens is not supported, use max_completion_tokens instead"},
    {"error": {"message": KEY.replace(" ", "\n"), "code": "insufficient_quota"}},
]
ANSWERS = [CHAT, PARTS, COMPLETIONS]

texts = st.one_of(
    st.sampled_from([*ANSWERS, *ERRORS]).flatmap(altered).map(dump), json_values.map(dump),
    st.sampled_from([*ANSWERS, *ERRORS]).map(lambda found: json.dumps(found).replace(
        json.dumps(KEY)[1:-1], ESCAPED)),
    st.sampled_from([KEY, f"<html>{KEY}</html>", "x" * 290 + KEY, KEY.replace(" ", "\n\t"), ESCAPED,
                     KEY.replace(r"\x07", "\x07"), ""]))
contents = texts.map(str.encode)

STATUSES = st.sampled_from([
    *["HTTP/1.1 200 OK"] * 8, "HTTP/1.0 200 OK", "HTTP/1.1 200", f"HTTP/1.1 200 {KEY}",
    "HTTP/1.1 201 Made", "HTTP/1.1 204 None", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 101 Switch", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/",
    "HTTP/1.1 400 Bad", "HTTP/1.1 401 Who", f"HTTP/1.1 403 {KEY}", "HTTP/1.1 404 Not",
    "HTTP/1.1 422 Odd", "HTTP/1.1 413 Large", "HTTP/1.1 429 Many",
    "HTTP/1.1 500 Own", f"HTTP/1.1 503 {KEY}",
    "HTTP/1.1 999 Odd", "HTTP/1.1 -1 Odd", "HTTP/9.9 200 OK", "ICY 200 OK", KEY, "", "\x00"])
HEADERS = st.lists(st.sampled_from([
    "Content-Length: 0", "Content-Length: 5", "Content-Length: -1",
    "Content-Length: 99999999999999", f"Content-Length: {'9' * 30}", "Content-Length: x",
    "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked",
    "Content-Encoding: gzip", f"Content-Encoding: {KEY}",
    "Content-Type: text/event-stream", f"Retry-After: {KEY}", "Retry-After: 1e999",
    "Retry-After: nan", "Retry-After: Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
    "Retry-After: Mon, 01 Jan 9999 00:00:00 -2359", "Connection: close", "Connection: keep-alive",
    f"Set-Cookie: key={KEY}", f"WWW-Authenticate: {KEY}", "no colon", ": no name", " folded",
    "X-Nul: \x00", "X-Long: " + "x" * 9000, "Upgrade: websocket", "Trailer: X"]), max_size=2)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """Something like an answer of a server, or not at all."""
    body = draw(contents)
    framing = draw(st.sampled_from(["length", "length", "length", "chunked", "broken", "none"]))
    headers = [header.encode() for header in draw(HEADERS)]
    if framing == "length":
        headers.append(b"Content-Length: %d" % len(body))
    elif framing != "none":
        headers.append(b"Transfer-Encoding: chunked")
        cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=3)))
        parts = [body[i:j] for i, j in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part]
        body = b"".join(chunks) + b"0\r\n\r\n" * (framing == "chunked")
    content = b"\r\n".join([draw(STATUSES).encode(), *headers, b"", body])
    if draw(st.integers(0, 2)) == 0:
        content = draw(mutated(st.just(content)))
    return Reply(content, closes=draw(st.integers(0, 9)) > 0)


CHUNKS = [
    {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Bon"}}]},
    {"id": "1", "choices": [{"index": 0, "delta": {"content": KEY, "tool_calls": [
        {"index": 0, "function": {"name": "f", "arguments": "{"}}]}, "logprobs": {"content": []}}]},
    {"choices": [{"index": 0, "text": "Bonjour", "finish_reason": "stop"}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, *ERRORS]
events = st.one_of(
    st.sampled_from(CHUNKS).flatmap(altered).map(lambda chunk: f"data: {dump(chunk)}\n\n"),
    st.sampled_from(["data: [DONE]\n\n", ": comment\n\n", "data:\n", "\r\n\r\n", f"data: {KEY}\n\n",
                     "event: error\n", "data: {\ndata: }\n\n"]))


@st.composite
def streams(draw: st.DrawFn) -> Reply:
    body = "".join(draw(st.lists(events, max_size=6))).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 2)) == 0:
        body = draw(mutated(st.just(body)))
    size = len(body) + draw(st.sampled_from([0, 0, 0, 9]))  # more than there is: a broken stream
    return Reply(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                 b"Content-Length: %d\r\n\r\n%b" % (size, body))


anything = st.lists(replies() | st.binary(max_size=60).map(Reply), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    made = HostileServer()
    yield made
    made.close()


@pytest.fixture
def quick(monkeypatch):
    """No long waits, and limits that are soon reached."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(client, "_MAX_WAIT", 0.01)
    monkeypatch.setattr(client, "MAX_BODY", 1 << 19)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@fuzz(found=anything, api=st.sampled_from(["chat", "completions"]), retries=st.integers(0, 1),
      n=st.integers(1, 3), policy=st.sampled_from(["skip", "stop"]))
def test_samples_of_any_server_can_be_read_or_it_is_told(found, api, retries, n, policy, server,
                                                         quick, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("one\ntwo\n")
    out.unlink(missing_ok=True)
    with server.replying(found):
        result = run("sample", source, "--endpoint", server.endpoint, "--model", "m", "-n", n,
                     "--api", api, "--retries", retries, "--timeout", 1, "--per-request", 2,
                     "--on-error", policy, "-o", out, "--overwrite")
    check_secret(result.out, result.err, tmp_path)
    assert result.code in (0, 2, 3), result
    if result.code != 2:
        reader = SampleReader(files(out))
        records = parse(reader, read(reader)[0])
        assert [record.segment is None for record in records] == [
            "failed before" in str(record.error) for record in records]


@fuzz(found=streams() | replies())
def test_any_stream_is_relayed_or_it_is_told(found, server, quick):
    received = []

    async def receive(chunk):
        received.append(chunk)

    async def relay():
        async with client.Client(server.endpoint, KEY, retries=0, timeout=5) as own:
            return await own.stream("chat/completions", {}, receive, check_response)

    message = ""
    with server.replying([found]):
        try:
            answer = asyncio.run(relay())
        except MinriskError as error:
            message = str(error)
        else:
            read_usage(answer.body, read_choices(answer.body))
    assert KEY not in message
    assert not any(json.dumps(KEY)[1:-1] in json.dumps(chunk) for chunk in received)


def check_secret(out: str, err: str, folder: Path) -> None:
    assert KEY not in out + err
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert KEY.encode() not in content
            assert json.dumps(KEY)[1:-1].encode() not in content


@fuzz(text=st.sampled_from(ANSWERS).flatmap(altered).map(dump))
def test_choices_of_any_answer_are_samples_or_it_is_told(text, tmp_path):
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return
    if check_response(body):
        return
    choices = read_choices(body)
    read_usage(body, choices)
    samples = Samples(Sample(choice.text, logprob=choice.logprob, length=choice.length,
                              finish_reason=choice.finish_reason, reasoning=choice.reasoning)
                       for choice in choices if choice.text is not None)
    path = tmp_path / "out.jsonl"
    path.write_text(json.dumps(columns(samples), ensure_ascii=False, allow_nan=False), "utf-8")
    reader = SampleReader(files(path))
    [record] = parse(reader, read(reader)[0])
    assert samples == [] or record.error is None, record


@fuzz(text=texts, header=st.text(max_size=12) | st.sampled_from(["1e999", "nan", "-5", "0x"]) | (
    st.builds("Mon, {} Jan {} 00:00:00 {}".format, st.integers(0, 99), st.integers(0, 10**6),
              st.sampled_from(["GMT", "+9999", "-99999999999999999999", "", "+2400"]))))
def test_what_a_server_says_is_shown_without_the_key(text, header):
    mask = Mask(KEY)
    said = Detail.of(text).changed(mask.text)
    shown = (said.text, said.field or "", said.code or "", mask.line(text), mask.line(said.text))
    assert not any(KEY in part for part in shown)
    assert len(mask.line(text).splitlines()) <= 1
    assert seconds_to_wait(header) >= 0
