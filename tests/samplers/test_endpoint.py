"""Samples from servers that fail in every way that servers do."""

from __future__ import annotations

import json
import socket
import threading
import time
from email.utils import formatdate
from itertools import pairwise

import pytest

import openai_server
from minrisk._core.errors import InputError, MinriskError, UnusableError
from minrisk._core.process import progress_listener
from minrisk._core.sampler import PartialError, columns
from minrisk.openai import client
from minrisk.samplers.openai import Endpoint
from openai_server import Faulty, busy, refusing, status

KEY = "sk-not-for-anybody-s-eyes"


def sampler(server: Faulty, **options) -> Endpoint:
    return Endpoint("m", server.endpoint, **({"per_request": 4} | options))


def texts(samples) -> list[str]:
    return [sample.text for sample in samples]


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_samples_come_in_requests_of_the_given_size(server, api):
    [first, second] = sampler(server, api=api).sample(["one", "two"], 10)
    assert sorted(body["n"] for body in server.bodies) == [2, 2, 4, 4, 4, 4]
    assert len(first) == len(second) == 10
    assert all(text.startswith("one ") for text in texts(first))
    assert all(text.startswith("two ") for text in texts(second))
    assert len(set(texts(first))) > 1
    assert all(sample.logprob < 0 for sample in first)


def test_the_seed_and_the_place_fix_the_samples_in_any_batch_and_order_of_arrival(server):
    both = sampler(server).sample(["one", "two"], 6, seed=3)
    server.delay = 0.01
    assert sampler(server, concurrency=1).sample(["one", "two"], 6, seed=3) == both
    assert sampler(server).sample(["two"], 6, seed=3, indices=[1]) == both[1:]
    assert sampler(server).sample(["one", "two"], 6, seed=4) != both
    assert sampler(server).sample(["two"], 6, seed=3, indices=[0]) != both[1:]


def test_no_seed_is_sent_where_it_is_not_wanted(server):
    sampler(server, send_seed=False).sample(["one"], 2)
    assert "seed" not in server.bodies[0]


def test_seeds_of_requests_are_far_apart(server):
    """llama.cpp draws choice i with seed + i, so that neighbours would share samples."""
    sampler(server, per_request=1).sample(["one"], 32)
    seeds = sorted(body["seed"] for body in server.bodies)
    assert min(b - a for a, b in pairwise(seeds)) > 32


@pytest.mark.parametrize("fault", [
    busy(), status(500), status(503), status(408), openai_server.dropped, openai_server.half,
    openai_server.cut,
    lambda h: h.reply(200, {"choices": []}), lambda h: h.reply(200, {"error": "overloaded"}),
], ids=["429", "500", "503", "408", "dropped", "half", "cut", "none", "error"])
def test_a_request_that_fails_for_the_time_being_is_sent_again(server, fault):
    expected = sampler(server).sample(["one"], 8)
    server.script = [fault, fault]
    assert sampler(server).sample(["one"], 8) == expected


def test_a_slow_answer_is_not_waited_for(server):
    server.script = [openai_server.slow]
    assert len(sampler(server, timeout=0.5).sample(["one"], 4)[0]) == 4
    assert len(server.bodies) > 1


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The seconds between attempts, which nobody waits for."""
    found = []

    async def sleep(seconds):
        found.append(seconds)

    monkeypatch.setattr(client, "sleep", sleep)
    return found


@pytest.mark.parametrize("after", ["500", lambda: formatdate(time.time() + 500, usegmt=True)])
def test_a_server_that_says_when_to_come_back_is_obeyed(server, pauses, after):
    server.script = [busy(after if isinstance(after, str) else after())]
    sampler(server).sample(["one"], 1)
    [pause] = pauses
    assert 490 < pause <= 750  # what it says, and up to half as much again


def test_a_server_that_wants_a_long_rest_is_told_of(server):
    server.script = [busy("86400")]
    with pytest.raises(UnusableError, match="86400"):
        sampler(server).sample(["one"], 1)


def test_waiting_grows_and_has_an_end(server, pauses):
    server.always = status(503, "overloaded")
    with pytest.raises(MinriskError, match=r"503 overloaded.* 3 retries"):
        sampler(server, retries=3).sample(["one"], 1)
    assert len(server.bodies) == 4
    assert len(pauses) == 3
    assert all(client.FIRST_PAUSE * 2**i / 2 <= pause <= client.FIRST_PAUSE * 2**i
               for i, pause in enumerate(pauses))


def test_a_server_that_gives_one_choice_at_a_time_is_asked_until_there_are_enough(server):
    server.most = 1
    [samples] = sampler(server).sample(["one"], 6)
    assert len(samples) == 6
    assert len({body["seed"] for body in server.bodies}) == 6




def test_a_prompt_that_is_refused_does_not_cost_the_others(server):
    def picky(handler):
        bad = handler.body["messages"][-1]["content"] == "bad"
        (status(400, "not with me") if bad else openai_server.answer)(handler)

    server.always = picky
    with pytest.raises(PartialError, match="400 not with me") as raised:
        sampler(server).sample(["one", "bad", "two"], 4)
    first, bad, second = raised.value.results
    assert texts(first)[0].startswith("one")
    assert isinstance(bad, InputError)
    assert texts(second)[0].startswith("two")


@pytest.mark.parametrize(("code", "hint"), [
    (401, "key"), (403, "key"), (404, "endpoint and the model"),
    (302, "endpoint")])
def test_what_no_retry_can_mend_is_told_at_once(server, code, hint):
    server.always = status(code)
    server.delay = 0.05
    with pytest.raises(UnusableError, match=hint):
        sampler(server, concurrency=1).sample(["one", "two"], 40)
    assert len(server.bodies) < 20  # nobody goes on asking


def test_a_server_that_is_not_there_is_told_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UnusableError, match="http://127") as raised:
        Endpoint("m", f"http://127.0.0.1:{port}/v1").sample(["one"], 1)
    assert "retries" not in str(raised.value)


def test_no_more_requests_are_open_than_allowed(server):
    """And no fewer: none is answered before there are three."""
    three = threading.Barrier(3, timeout=60)

    def together(handler):
        three.wait()
        openai_server.answer(handler)

    server.always = together
    sampler(server, per_request=1, concurrency=3).sample(["one"], 12)
    assert server.busiest == 3


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "MY_KEY"])
def test_the_key_comes_from_the_environment_and_is_never_shown(server, monkeypatch, variable):
    monkeypatch.setenv(variable, f" {KEY}\n")
    echo = sampler(server, key_variable=variable)
    server.always = lambda h: status(401, f"bad key {h.headers['Authorization']}")(h)
    with pytest.raises(UnusableError) as raised:
        echo.sample(["one"], 1)
    assert server.keys == [f"Bearer {KEY}"]
    assert "bad key Bearer ***" in str(raised.value)
    assert KEY not in f"{raised.value!r} {raised.value.__cause__} {echo}"


def test_a_key_is_not_sent_on_to_where_a_server_points(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with openai_server.serving() as thief:
        server.always = lambda h: h.reply(302, {}, Location=f"{thief.endpoint}/x")
        with pytest.raises(UnusableError, match="302"):
            sampler(server).sample(["one"], 1)
        assert thief.bodies == []


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_told_without_it(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(InputError, match="OPENAI_API_KEY") as raised:
        sampler(server).sample(["one"], 1)
    assert key not in str(raised.value)


def test_a_named_variable_must_be_set(server):
    with pytest.raises(InputError, match="NO_SUCH_KEY"):
        sampler(server, key_variable="NO_SUCH_KEY").sample(["one"], 1)


@pytest.mark.parametrize("key", ["sk-1234secret", "gsk_1234secret"])
def test_a_key_where_the_name_of_its_variable_belongs_is_not_shown(server, key):
    with pytest.raises(InputError, match="variable") as raised:
        sampler(server, key_variable=key).sample(["one"], 1)
    assert key not in str(raised.value)


def test_chats_go_out_as_they_are(server):
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"},
            {"role": "user", "content": "why"}]
    sampler(server, system="be kind").sample([chat], 1)
    assert server.bodies[0]["messages"] == [{"role": "system", "content": "be kind"}, *chat]


@pytest.mark.parametrize("options", [{"api": "completions"}, {"prompt": "Say {source}"}])
def test_chats_need_the_chat_interface_and_no_template(server, options):
    with pytest.raises(InputError, match="messages"):
        sampler(server, **options).sample([[{"role": "user", "content": "hi"}]], 1)


def test_the_options_reach_the_server(server):
    sampler(server, prompt="In French: {source} {braces}", temperature=0.5, top_p=0.9,
            max_tokens=7, logprobs=False, extra='{"min_p": 0.1}').sample(["a cat"], 1)
    body = server.bodies[0]
    assert body.pop("seed") >= 0
    assert body == {"messages": [{"role": "user", "content": "In French: a cat {braces}"}],
                    "model": "m", "temperature": 0.5, "top_p": 0.9, "max_tokens": 7,
                    "min_p": 0.1}


def test_a_server_without_log_probabilities_gives_none(server):
    server.logprobs = False
    with pytest.warns(UserWarning, match="log-probabilities"):
        assert sampler(server).sample(["one"], 1)[0][0].logprob is None


def test_samples_that_were_cut_are_told(server):
    server.always = lambda h: h.reply(200, {"choices": [
        choice | {"finish_reason": "length"} for choice in openai_server.choices(h)]})
    with pytest.warns(UserWarning, match="1 of 1 .*max_tokens=2048"):
        sampler(server).sample(["one"], 1)


def test_a_mistake_of_ours_is_not_taken_for_the_server_s(server, monkeypatch):
    monkeypatch.setattr("minrisk.openai.completions.read_choices", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sampler(server).sample(["one"], 1)


def test_progress_is_told(server):
    told = []
    with progress_listener(lambda *what: told.append(what)):
        sampler(server).sample(["one"], 12)
    assert told == [("requests answered", i, 3) for i in (1, 2, 3)]


@pytest.mark.parametrize(("options", "message"), [
    ({"endpoint": "localhost:8000"}, "address"),
    ({"endpoint": "http://[::1"}, "address"),
    ({"endpoint": "https://me:secret@host/v1"}, "query"),
    ({"endpoint": "https://host/v1?key=secret"}, "query"),
    ({"prompt": "no place"}, r"\{source\}"),
    ({"system": "s", "api": "completions"}, "system"),
    ({"extra": "min_p=1"}, "JSON object"), ({"extra": "[1]"}, "JSON object"),
    ({"extra": '{"n": 3}'}, "extra has n"),
])
def test_options_that_make_no_sense_are_told_without_secrets(options, message):
    with pytest.raises(InputError, match=message) as raised:
        Endpoint(**({"endpoint": "http://localhost/v1", "model": "m"} | options))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_numbers_that_make_no_sense_are_told(server, n, seed):
    with pytest.raises(InputError, match=r"(n|seed) must"):
        sampler(server).sample(["one"], n, seed)


def test_a_body_is_json_whatever_the_text(server):
    sampler(server).sample(["naïve 👍🏽 \ud800 \u2028 \"quoted\""], 1)
    assert json.loads(json.dumps(server.bodies[0]))["messages"][0]["content"].endswith('"quoted"')


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_samples_have_what_their_tokens_say_and_likely_tokens_only_where_asked_for(server, api):
    [plain] = sampler(server, api=api, window=2).sample(["one"], 4)
    [samples] = sampler(server, api=api, window=2, top_logprobs=3).sample(["one"], 4)
    for one in samples:
        assert one.lowest_logprob <= one.tail_logprob < 0
        assert one.certainty == pytest.approx(1 - one.logprob / one.length)
    assert [one.certainty for one in plain] == [None] * 4
    assert [one.lowest_logprob for one in plain] == [one.lowest_logprob for one in samples]
    assert server.bodies[0].get("top_logprobs") is None
    assert columns(samples).keys() >= {"lowest_logprobs", "tail_logprobs", "certainties"}


def test_a_server_that_refuses_likely_tokens_is_asked_without_them(server):
    server.always = refusing(top_logprobs="Unknown field top_logprobs")
    with pytest.warns(UserWarning, match="top_logprobs=3"):
        [samples] = sampler(server, top_logprobs=3).sample(["one"], 4)
    assert all(one.logprob < 0 and one.certainty is None for one in samples)
