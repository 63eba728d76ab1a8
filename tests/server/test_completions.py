"""Requests and responses: what a client sends, what the upstream gets, and what comes back."""

from __future__ import annotations

import json
from itertools import cycle

import pytest

import minrisk
from mbr_server import serving, settings
from minrisk import decode, make_strategy
from minrisk.server.settings import Preset, Settings
from upstream import failing, mock_upstream

SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


@pytest.fixture
def server(upstream):
    with serving(upstream.url) as found:
        yield found


def test_the_answer_is_the_one_that_decode_chooses(server):
    reply = server.chat()
    assert reply.status == 200
    assert reply.text == decode(SAMPLES).text == "the cat sat"


def test_fields_that_are_not_ours_reach_the_upstream_untouched(server, upstream):
    function = {"name": "f", "parameters": {"a": [1.5]}}
    fields = {"tools": [{"type": "function", "function": function}],
              "stop": ["\n"], "logit_bias": {"5": -100}, "reasoning_effort": "low",
              "max_completion_tokens": 9, "x_unknown": {"deep": [None, True, "ü\ud800"]},
              "temperature": 0.3, "user": "me"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"},
                                             {"type": "image_url", "image_url": {"url": "x"}}],
                 "name": "n", "weird": 1}]
    assert server.call("/v1/chat/completions",
                       {"model": "m", "messages": messages, **fields}).status == 200
    [body] = upstream.bodies
    assert body["messages"] == messages
    assert {name: body[name] for name in fields} == fields
    assert set(body) == {"model", "messages", "n", "seed", *fields}


def test_the_operator_gives_the_temperature_where_the_client_does_not(upstream):
    with serving(upstream.url, settings(temperature=0.4)) as server:
        server.chat()
        server.chat(temperature=None)
        server.chat(temperature=0.9)
    assert [body["temperature"] for body in upstream.bodies] == [0.4, 0.4, 0.9]


def test_n_is_the_number_of_choices_that_the_client_gets(server, upstream):
    choices = server.chat(n=3).body["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert choices[0]["message"]["content"] == "the cat sat"
    assert len({choice["message"]["content"] for choice in choices}) == 3
    assert upstream.bodies[0]["n"] == 4


def test_n_choices_of_a_vote_have_different_answers():
    texts = ["it is 7", "no idea", "so 8", "7 it is", "7!", "no", "8?", "9"]
    with (mock_upstream(*texts) as own,
          serving(own.url, settings(minrisk.ExactMatch(r"\d"), 8, stop_error=None)) as server):
        found = [choice["message"]["content"] for choice in server.chat(n=8).body["choices"]]
        alone = server.chat().text
    assert found == ["it is 7", "so 8", "9", "7 it is", "8?", "7!", "no idea", "no"]
    assert alone == "it is 7"


def test_a_client_may_choose_the_samples_up_to_a_limit(upstream):
    with serving(upstream.url, settings(max_samples=8)) as server:
        assert server.chat(minrisk={"samples": 8}).body["minrisk"]["samples"] == 8
        reply = server.chat(minrisk={"samples": 9})
        assert reply.status == 400
        assert "from 1 to 8" in reply.body["error"]["message"]
        assert server.chat(n=9).status == 400
        reply = server.call("/v1/completions", {"model": "m", "prompt": "x", "best_of": 3})
        assert reply.body["minrisk"]["samples"] == 3


@pytest.mark.parametrize("more", [{}, {"best_of": 3}])  # which is for minrisk
@pytest.mark.parametrize("fields", [{"temperature": 0}, {"minrisk": {"samples": 1}}])
def test_one_request_passes_through_as_it_is(server, upstream, fields, more):
    reply = server.chat(seed=5, top_p=0.5, **fields, **more)
    assert reply.status == 200
    [body] = upstream.bodies
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hello"}], "seed": 5,
                    "top_p": 0.5, **{k: v for k, v in fields.items() if k != "minrisk"}}


def test_seeds_are_far_apart_and_follow_from_the_clients(upstream):
    with serving(upstream.url, per_request=1) as server:
        for _ in range(2):
            server.chat(seed=3)
        server.chat()
    seeds = [body["seed"] for body in upstream.bodies]
    assert set(seeds[:4]) == set(seeds[4:8])
    assert len(set(seeds)) == 8
    assert min(abs(a - b) for a in seeds[:4] for b in seeds[:4] if a != b) > 1000


def test_an_upstream_that_ignores_n_is_asked_more_often(server, upstream):
    upstream.most = 1
    assert server.chat().body["minrisk"]["samples"] == 4
    assert [body.get("n") for body in upstream.bodies] == [4, None, None, None]
    server.chat()
    assert [body.get("n") for body in upstream.bodies[4:]] == [None] * 4


def test_an_upstream_that_refuses_n_is_asked_more_often(server, upstream):
    upstream_answer = upstream.answer
    refuse = failing(400, "'n' must be 1")

    async def answer(own, body):
        return await (refuse if body.get("n", 1) > 1 else upstream_answer)(own, body)

    upstream.answer = answer
    assert server.chat().body["minrisk"]["samples"] == 4


def test_what_only_we_send_is_left_out_where_it_is_refused_and_the_clients_own_never(server,
                                                                                    upstream):
    plain = upstream.answer
    refuse = failing(400, "temperature is not supported")

    async def answer(own, body):
        return await (refuse if "temperature" in body else plain)(own, body)

    upstream.answer = answer
    assert server.chat().status == 200
    reply = server.chat(temperature=0.5)
    assert (reply.status, reply.body["error"]["message"]) == (400, "temperature is not supported")
    assert upstream.bodies[-1]["temperature"] == 0.5


def test_the_winner_is_the_upstreams_choice_unchanged(upstream):
    choice = {"role": "assistant", "content": "yes", "reasoning_content": "because",
              "annotations": [{"a": 1}], "refusal": None}
    with mock_upstream(choice, "no", choice) as own, serving(own.url) as server:
        reply = server.chat(minrisk={"samples": 3}).body
    assert reply["choices"] == [{"index": 0, "message": choice, "finish_reason": "stop"}]
    assert reply["id"].startswith("up-")
    assert reply["system_fingerprint"] == "fp"


def test_usage_is_the_sum_of_all_upstream_requests(upstream):
    with serving(upstream.url, per_request=1) as server:
        usage = server.chat().body["usage"]
    assert usage == {"prompt_tokens": 28, "completion_tokens": 12, "total_tokens": 40,
                     "completion_tokens_details": {"reasoning_tokens": 4}}


def test_usage_is_left_out_where_the_upstream_does_not_tell(server, upstream):
    upstream.usage = False
    assert "usage" not in server.chat().body


def test_what_we_know_is_in_its_own_object_and_in_headers(server):
    reply = server.chat()
    found = reply.body["minrisk"]
    assert (found["samples"], found["distinct"]) == (4, 3)
    assert found["signature"].startswith("strategy:standard|metric:chrf|")
    assert 0 < found["confidence"] <= 1
    assert "candidates" not in found
    assert reply.headers["x-minrisk-samples"] == "4"
    assert reply.headers["x-minrisk-signature"] == found["signature"]


def test_a_value_of_the_signature_cannot_become_a_header(upstream):
    metric = minrisk.ExactMatch(pattern="(?s)x-evil: 1\r\nx-evil: 2|ü|.*")
    with serving(upstream.url, settings(metric)) as server:
        reply = server.chat()
    assert "x-evil" not in reply.headers
    assert r"x-evil: 1?\nx-evil: 2|?|.*" in reply.headers["x-minrisk-signature"]


def test_candidates_come_on_request(server):
    found = server.chat(minrisk={"return_candidates": True}).body["minrisk"]["candidates"]
    assert sorted(choice["message"]["content"] for choice in found) == sorted(SAMPLES)


def test_the_request_id_is_echoed_unless_it_could_do_harm(server):
    assert server.call("/health", **{"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    for own in ("x" * 200, "a b", "ü"):
        found = server.call("/health", **{"X-Request-Id": own}).headers["x-request-id"]
        assert found.startswith("req_")


def test_cut_samples_lose_to_finished_ones(upstream):
    upstream.finish_reasons = cycle(["length", "stop", "length", "stop"])
    with serving(upstream.url) as server:
        assert server.chat().text == "a cat sat down"
    with serving(upstream.url, settings(prefer_finished=False)) as server:
        assert server.chat().text == "the cat sat"


def test_filtered_and_empty_samples_are_dropped_unless_there_are_no_others():
    with mock_upstream("", "the cat", "   ", "the cat") as own, serving(own.url) as server:
        assert server.chat().text == "the cat"
    with mock_upstream("", " ") as own, serving(own.url) as server:
        own.finish_reasons = cycle(["content_filter"])
        reply = server.chat().body
        assert reply["choices"][0]["finish_reason"] == "content_filter"
        assert reply["usage"]["completion_tokens"] == 12


def test_reasoning_is_not_compared(upstream):
    texts = ["<think>a b c d</think> 42", "<think>e f g</think>42", "<think>a b c d</think>41"]
    with mock_upstream(*texts) as own, serving(own.url, settings("exact-match", 3)) as server:
        reply = server.chat()
    assert reply.text == texts[0]
    assert reply.body["minrisk"]["distinct"] == 2


def test_json_answers_are_compared_by_their_values():
    texts = ['{"a": 1, "b": 2}', '{"x": 9}', '{"b": 2.0,\n "a": 1}']
    with mock_upstream(*texts) as own, serving(own.url, settings("exact-match", 3)) as server:
        reply = server.chat(response_format={"type": "json_object"})
    assert reply.text == texts[0]
    assert reply.body["minrisk"]["distinct"] == 2


def tool(name, **arguments):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": f"call_{name}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(arguments)}}]}


def test_most_decide_whether_a_tool_is_called_then_which_then_with_what():
    texts = ["the sky is blue", tool("search", q="sky", top=3), tool("search", top=3.0, q="sky"),
             tool("lookup", q="sky"), tool("search", q="blue"), "the sky is blue",
             "the sky is blue"]
    with mock_upstream(*texts) as own, serving(own.url, settings(samples=7)) as server:
        reply = server.chat(n=7).body
    assert reply["choices"][0]["message"] == texts[1]
    assert reply["choices"][-1]["message"]["content"] in ("the sky is blue", None)
    assert len(reply["choices"]) == 7
    with mock_upstream("talk", "talk", tool("search", q="a")) as own, serving(own.url) as server:
        assert server.chat(minrisk={"samples": 3}).text == "talk"


def test_log_probabilities_that_only_weigh_are_removed():
    from minrisk.io.weighting import Weighting

    chosen = settings(weighting=Weighting("logprobs"))
    with mock_upstream("a long sample text", "b") as own, serving(own.url, chosen) as server:
        [choice] = server.chat().body["choices"]
        assert own.bodies[0]["logprobs"] is True
        assert (choice["message"]["content"], choice["logprobs"]) == ("b", None)
        [choice] = server.chat(logprobs=True).body["choices"]
        assert choice["logprobs"]["content"]
    with mock_upstream("a") as own, serving(own.url) as server:
        server.chat()
        assert "logprobs" not in own.bodies[0]


@pytest.mark.parametrize(("strategy", "options"), [
    ("standard", {"metric": "logprob"}),
    ("quality-then-mbr", {"metric": "chrf", "quality": "logprob", "keep": 1})])
def test_metrics_of_log_probabilities_get_them_from_the_upstream(strategy, options):
    preset = Preset(None, 4, make_strategy(strategy, **options))
    with (mock_upstream("a long sample text", "a short one") as own,
          serving(own.url, Settings(preset)) as server):
        reply = server.chat()
        assert (reply.status, reply.text) == (200, "a short one")
        assert reply.body["choices"][0]["logprobs"] is None
        assert "weights:uniform" in reply.body["minrisk"]["signature"]


def test_the_signature_says_when_there_was_nothing_to_weigh_by():
    from minrisk.io.weighting import Weighting

    chosen = settings(weighting=Weighting("logprobs"))
    with mock_upstream("a", "b", "b") as own, serving(own.url, chosen) as server:
        assert "weights:logprobs" in server.chat().body["minrisk"]["signature"]
    with mock_upstream("a", "b", "b") as own, serving(own.url, chosen) as server:
        own.gives_logprobs = False
        assert "weights:uniform" in server.chat().body["minrisk"]["signature"]


def test_completions_have_texts(server):
    reply = server.call("/v1/completions", {"model": "m", "prompt": "the"})
    assert reply.body["choices"][0]["text"] == "the cat sat"


def test_only_the_operators_metrics_can_be_named(upstream):
    with serving(upstream.url, settings(allow=("bleu",))) as server:
        assert "metric:bleu" in server.chat(minrisk={"metric": "bleu"}).body["minrisk"]["signature"]
        for name in ("command:touch /tmp/x", "python:os:system", "comet", "/etc/passwd"):
            reply = server.chat(minrisk={"metric": name})
            assert reply.status == 400
            assert "it offers: bleu" in reply.body["error"]["message"]
        assert server.chat(minrisk={"strategy": "medoids"}).status == 400
        found = server.chat(minrisk={"strategy": "aggregate"}).body["minrisk"]["signature"]
        assert found.startswith("strategy:aggregate")


@pytest.mark.parametrize(("body", "words"), [
    (b"{", "not valid JSON"), (b"[1]", "expected an object"), (b'{"messages": []}', "messages"),
    (b'{"messages": "x"}', "messages"), (b'{"messages": [1]}', "messages"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"messages": [{}], "x": ' + b"[" * 500 + b"]" * 500 + b"}", "levels deep"),
    (b'{"messages": [{}], "n": 0}', "n must"), (b'{"messages": [{}], "n": true}', "n must"),
    (b'{"messages": [{}], "stream": "yes"}', "stream"),
    (b'{"messages": [{}], "minrisk": 3}', "minrisk"),
    (b'{"messages": [{}], "minrisk": {"sample": 3}}', "unknown field minrisk.sample"),
    (b'{"messages": [{}], "x": NaN}', "not valid JSON"),
    (b'{"messages": [{}], "x": 1e999}', "too large"),
    (b'{"messages": [{}], "model": 3}', "model"), (b"\xff", "not valid JSON")])
def test_a_body_that_makes_no_sense_is_refused(server, upstream, body, words):
    reply = server.call("/v1/chat/completions", body)
    assert reply.status == 400
    error = reply.body["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not upstream.bodies


def test_several_prompts_in_one_request_are_refused(server):
    reply = server.call("/v1/completions", {"model": "m", "prompt": ["a", "b"]})
    assert (reply.status, reply.body["error"]["param"]) == (400, "prompt")


def test_unknown_paths_and_methods_get_the_same_form_of_error(server):
    for reply, status in ((server.call("/v1/nothing"), 404),
                          (server.call("/v1/chat/completions"), 405)):
        assert reply.status == status
        assert set(reply.body["error"]) == {"message", "type", "param", "code"}


def test_a_body_that_is_too_large_is_refused(upstream):
    with serving(upstream.url, settings(max_body=10_000)) as server:
        reply = server.chat("x" * 20_000)
    assert reply.status == 413
    assert "error" in reply.body


def test_models_are_the_upstreams_and_the_aliases(upstream):
    from minrisk._core.decoding import make_strategy
    from minrisk.server.settings import Preset

    careful = Preset("m", 8, make_strategy("standard", "bleu"))
    with serving(upstream.url, settings(aliases={"careful": careful})) as server:
        assert [m["id"] for m in server.call("/v1/models").body["data"]] == ["careful", "m"]
        assert server.call("/v1/models/careful").body["id"] == "careful"
        assert server.call("/v1/models/none/such").status == 404
        found = server.chat(model="careful").body["minrisk"]
        assert found["samples"] == 8
        assert "metric:bleu" in found["signature"]
        assert upstream.bodies[-1]["model"] == "m"
    with serving(upstream.url, settings(model="m")) as server:
        assert [m["id"] for m in server.call("/v1/models").body["data"]] == ["m"]
        reply = server.chat(model="other")
        assert (reply.status, reply.body["error"]["code"]) == (404, "model_not_found")


def test_rank_is_decode_without_sampling(server, upstream):
    reply = server.call("/v1/rank", {"candidates": SAMPLES}).body
    expected = decode(SAMPLES)
    assert [one["index"] for one in reply["results"]] == expected.order.tolist()
    assert reply["results"][0]["utility"] == pytest.approx(expected.utility[expected.best])
    assert not upstream.bodies


@pytest.mark.parametrize("body", [
    {}, {"candidates": []}, {"candidates": ["a"], "metric": "command:x"},
    {"candidates": ["a"] * 2000}, {"candidates": ["a"], "counts": [5000]},
    {"candidates": ["a"], "weights": [-1]}, {"candidates": ["a", 1]}, {"candidates": ["a"], "x": 1},
    {"candidates": ["a"], "source": 3}, {"candidates": ["a"], "seed": "x"}])
def test_what_cannot_be_ranked_is_refused(server, body):
    assert server.call("/v1/rank", body).status == 400
