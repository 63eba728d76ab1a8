"""Servers that take less than OpenAI's protocol has, and answers that are no plain text."""

from __future__ import annotations

import json
import threading
import warnings

import pytest

import openai_server
from commands import run, write
from minrisk._core.errors import InputError
from minrisk._core.sampler import PartialError, Sample, Samples, columns
from minrisk.openai import completions
from minrisk.openai.completions import fewer_choices
from minrisk.openai.errors import BadRequestError, Detail
from minrisk.openai.responses import read_choices
from minrisk.samplers.openai import Endpoint
from openai_server import Faulty, altered, few_places, refusing, status

MAX_TOKENS = ("Unsupported parameter: 'max_tokens' is not supported with this model. "
              "Use 'max_completion_tokens' instead.")
TEMPERATURE = ("Unsupported value: 'temperature' does not support 0.7 with this model. "
               "Only the default (1) value is supported.")
LOGPROBS = "You are not allowed to request logprobs from this model"
SEED = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
N = "Invalid n value (currently only n = 1 is supported)"


@pytest.fixture(autouse=True)
def _first_goes_first(monkeypatch):
    """However slow the machine is."""
    monkeypatch.setattr(completions, "ACCEPTED_AFTER", 60.0)


def sampler(server: Faulty, **options) -> Endpoint:
    return Endpoint("m", server.endpoint, **({"per_request": 4, "retries": 0} | options))


def texts(samples) -> list[str]:
    return [sample.text for sample in samples]


def refusals(server: Faulty, model: Endpoint) -> int:
    """Requests that were sent for nothing, of 3 prompts with 8 samples each in two batches."""
    for batch, places in ((["one", "two"], [0, 1]), (["three"], [2])):
        drawn = model.sample(batch, 8, 0, places)
        assert [len(samples) for samples in drawn] == [8] * len(batch)
    return server.statuses.count(400)


def test_a_limit_of_another_name_is_sent_by_that_name(server):
    server.always = refusing(max_tokens=MAX_TOKENS)
    assert refusals(server, sampler(server, max_tokens=7)) == 1
    assert all(body["max_completion_tokens"] == 7 for body in server.bodies[1:])


@pytest.mark.parametrize(("field", "said", "message"), [
    ("temperature", TEMPERATURE, "temperature=0.7: .*Only the default"),
    ("logprobs", LOGPROBS, "log-probabilities: .*not allowed"),
    ("seed", SEED, "seed: .*Unknown name"),
])
def test_a_field_that_is_refused_is_left_out_and_the_user_told_once(server, field, said, message):
    server.always = refusing(**{field: said})
    with pytest.warns(UserWarning, match=message) as caught:
        assert refusals(server, sampler(server, temperature=0.7)) == 1
    assert len(caught) == 1
    assert all(field not in body for body in server.bodies[1:])


def test_a_server_that_refuses_everything_is_understood_field_by_field(server):
    server.always = refusing(max_tokens=MAX_TOKENS, temperature=TEMPERATURE, logprobs=LOGPROBS,
                             seed=SEED, n=N)
    with pytest.warns(UserWarning, match="server") as caught:
        assert refusals(server, sampler(server, temperature=0.7)) == 5
    assert len(caught) == 3
    assert set(server.bodies[-1]) == {"messages", "model", "max_completion_tokens"}


def test_errors_in_lists_and_of_validators_are_understood(server):
    def gemini(handler):
        if "seed" in handler.body:
            return handler.reply(400, [{"error": {"code": 400, "message": SEED}}])
        if "logprobs" in handler.body:
            return handler.reply(422, {"detail": [{
                "type": "extra_forbidden", "loc": ["body", "logprobs"],
                "msg": "Extra inputs are not permitted", "input": "the temperature is unknown"}]})
        return openai_server.answer(handler)

    server.always = gemini
    with pytest.warns(UserWarning, match="server") as caught:
        sampler(server).sample(["one"], 4)
    assert len(caught) == 2
    assert server.bodies[-1]["temperature"] == 1.0


def test_a_refused_n_is_found_out_once_and_the_rest_asked_for_in_parallel(server):
    server.always = few_places(1)
    server.delay = 0.05
    model = sampler(server, concurrency=3)
    assert refusals(server, model) == 1
    assert server.busiest == 3
    assert all("n" not in body for body in server.bodies[1:])
    assert len({body["seed"] for body in server.bodies[1:]}) == 24


@pytest.mark.parametrize("said", [
    "n must be less than or equal to 2", "'n' : number must be at most 2, got 4",
    "too many completions"])
def test_a_limit_of_n_is_taken_from_what_the_server_says_of_it(server, said):
    server.always = lambda h: (
        openai_server.answer if h.body.get("n", 1) <= 2 else status(400, said))(h)
    assert refusals(server, sampler(server)) == 1
    assert server.bodies[-1].get("n", 1) == (2 if "2" in said else 1)


@pytest.mark.parametrize("most", [1, 3])
def test_a_server_that_gives_fewer_is_not_asked_for_more_again(server, most):
    server.most = most
    model = sampler(server)
    first = model.sample(["one"], 8)
    asked = len(server.bodies)
    assert len(first[0]) == 8
    assert asked == {1: 8, 3: 4}[most]
    assert max(body.get("n", 1) for body in server.bodies[1:]) == most
    assert model.sample(["one"], 8) == first  # now that it is known
    assert len(server.bodies) - asked == {1: 8, 3: 4}[most]


def test_a_slow_first_answer_keeps_nobody_waiting(server, monkeypatch):
    """Others go on, knowing what it was refused, as soon as it is not refused again."""
    monkeypatch.setattr(completions, "ACCEPTED_AFTER", 0.2)
    other = threading.Event()

    def reply(handler):
        if handler.body["messages"][-1]["content"] == "one":
            assert other.wait(60)
        else:
            other.set()
        openai_server.answer(handler)

    server.always = lambda h: (reply if h.body.get("n", 1) == 1 else few_places(1))(h)
    found = sampler(server).sample(["one", "two"], 4)
    assert [len(samples) for samples in found] == [4, 4]
    assert server.statuses.count(400) == 1


def test_a_first_prompt_that_is_refused_leaves_its_place_to_the_next(server):
    def picky(handler):
        bad = handler.body["messages"][-1]["content"] == "bad"
        (status(400, "not with me") if bad else few_places(1))(handler)

    server.always = picky
    with pytest.raises(PartialError):
        sampler(server).sample(["bad", "one", "two", "three"], 4)
    assert server.statuses.count(400) == 2 + 1  # two for the bad prompt, one for n


def test_samples_are_the_same_before_and_after_it_is_known_what_a_server_takes(server):
    server.always = few_places(1)
    model = sampler(server)
    assert model.sample(["one"], 8, seed=2) == model.sample(["one"], 8, seed=2)


@pytest.mark.parametrize("said", [
    "This model's maximum context length is 4096 tokens; reduce 'max_tokens' or the messages",
    "temperature must be at most 2", "not with me", "'n' is fine, but your seed is unsupported"])
def test_a_prompt_that_is_refused_teaches_nothing(server, said):
    def picky(handler):
        bad = handler.body["messages"][-1]["content"] == "bad"
        (status(400, said) if bad else openai_server.answer)(handler)

    server.always = picky
    model = sampler(server)
    with pytest.raises(PartialError, match="400"):
        model.sample(["bad", "one", "bad", "two"], 4)
    server.bodies.clear()
    model.sample(["one"], 4)
    assert server.bodies[0].keys() >= {"max_tokens", "temperature", "seed", "logprobs", "n"}


def test_a_value_that_is_wrong_is_told_and_not_left_out(server):
    server.always = refusing(temperature="temperature must be at most 2")
    with pytest.raises(InputError, match="temperature"):
        sampler(server, temperature=3.0).sample(["one"], 1)


def test_what_extra_says_wins_and_is_never_left_out(server):
    extra = {"temperature": 0.3, "max_tokens": None, "seed": None, "logprobs": None, "n": None}
    sampler(server, extra=json.dumps(extra)).sample(["one"], 2)
    assert all(set(body) == {"messages", "model", "temperature"} for body in server.bodies)
    assert len(server.bodies) == 2
    server.always = refusing(temperature=TEMPERATURE)
    with pytest.raises(InputError, match="default"):
        sampler(server, extra='{"temperature": 0.3}').sample(["one"], 1)


def test_a_limit_of_another_name_in_extra_is_the_only_one(server):
    sampler(server, extra='{"max_completion_tokens": 2000}').sample(["one"], 1)
    assert server.bodies[0]["max_completion_tokens"] == 2000
    assert "max_tokens" not in server.bodies[0]


@pytest.mark.parametrize(("detail", "n"), [
    (Detail("n = 16 is more than 8"), 8), (Detail("only 1 choice", "n"), 1), (Detail("no"), 1),
    (Detail("n_cmpl cannot be greater than the number of slots"), 1), (Detail("error 12"), 1)])
def test_how_many_choices_a_server_takes_is_read_from_its_words(detail, n):
    assert fewer_choices(BadRequestError("", 400, detail), 16) == n


# -- answers ----------------------------------------------------------------------------------


CUT = {"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": "length"}
REFUSAL = {"message": {"content": None, "refusal": "I will not"}, "finish_reason": "stop"}
TOOL = {"message": {"content": "", "tool_calls": [{"id": "x"}]}, "finish_reason": "tool_calls"}
FILTERED = {"message": {"content": ""}, "finish_reason": "content_filter"}
NOTHING = {"message": {"role": "assistant"}, "finish_reason": None}
ODD = {"message": {"content": None}, "finish_reason": "\x1b[31mabort"}


@pytest.mark.parametrize(("choice", "problem"), [
    (CUT, "1 cut at max_tokens=2048"), (REFUSAL, "1 refusals"),
    (TOOL, "1 tool calls"), (FILTERED, "1 stopped by a content filter"),
    (NOTHING, "1 without text"), (ODD, r"1 without text \(finish_reason '\\x1b")])
def test_an_answer_without_text_costs_no_other_and_is_not_asked_for_again(server, choice, problem):
    server.always = altered({}, {}, choice, {})
    with pytest.warns(UserWarning, match=f"1 of 4 .*{problem}"):
        [samples] = sampler(server, retries=6).sample(["one"], 4)
    assert len(samples) == 3
    assert len(server.bodies) == 1


@pytest.mark.parametrize(("changes", "reason"), [
    ([CUT], "4 .*max_tokens=2048"),
    ([REFUSAL], "4 .*refusals"), ([TOOL], "4 .*tool calls"),
    ([CUT, CUT, CUT, REFUSAL], "4 .*3 cut at max_tokens=2048.*1 refusals")])
def test_a_prompt_without_any_text_fails_and_says_why(server, changes, reason):
    server.script = [altered(*changes)]
    with pytest.raises(PartialError, match=reason) as raised:
        sampler(server, retries=6, concurrency=1).sample(["one", "two"], 4)
    assert len(server.bodies) == 2
    assert len(raised.value.results[1]) == 4


def test_an_empty_text_that_is_finished_is_a_sample(server):
    server.always = altered({"message": {"content": ""}, "finish_reason": "stop"})
    assert texts(sampler(server).sample(["one"], 2)[0]) == ["", ""]


@pytest.mark.filterwarnings("ignore:.* samples so far were cut")
def test_why_a_sample_ended_is_recorded(server):
    server.always = altered({}, {"finish_reason": "length"}, {"finish_reason": "content_filter"})
    [samples] = sampler(server, per_request=3).sample(["one"], 3)
    assert [sample.finish_reason for sample in samples] == ["stop", "length", "content_filter"]
    assert columns(samples, repeat=True)["finish_reasons"] == ["stop", "length", "content_filter"]


def test_samples_that_were_cut_can_be_left_out(server):
    server.always = altered({}, {"finish_reason": "length"}, {"finish_reason": "content_filter"})
    strict = sampler(server, per_request=3, drop_truncated=True, max_tokens=9)
    with pytest.warns(UserWarning, match="2 of 3 .* 1 .*max_tokens=9, 1"):
        [samples] = strict.sample(["one"], 3)
    assert [sample.finish_reason for sample in samples] == ["stop"]
    server.always = altered({"finish_reason": "length"})
    with pytest.raises(InputError, match=r"2 answers .*max_tokens=2048"):
        sampler(server, drop_truncated=True).sample(["one"], 2)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_recorded_apart_from_the_text(server, name):
    server.always = altered({"message": {"content": "4", name: "2 + 2"}})
    [samples] = sampler(server).sample(["one"], 2)
    assert [(sample.text, sample.reasoning) for sample in samples] == [("4", "2 + 2")] * 2
    assert columns(samples)["reasoning"] == ["2 + 2"]


def test_content_in_parts_is_joined(server):
    server.always = altered({"message": {"content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a "},
        {"type": "text", "text": "cat"}, "odd", {"type": "text"}]}})
    assert texts(sampler(server).sample(["one"], 1)[0]) == ["a cat"]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "Infinity", "1e999", f"-1{'0' * 400}",
                                   "null", '"x"', "{}"])
def test_log_probabilities_that_are_no_numbers_are_left_out(server, tmp_path, value):
    def reply(handler):
        text = json.dumps({"choices": openai_server.choices(handler)})
        handler.send(200, text.replace('"logprob": -0', f'"logprob": {value}, "x": -0', 1).encode())

    server.always = reply
    [samples] = sampler(server).sample(["one"], 4)
    assert [sample.logprob is None for sample in samples] == [True, False, False, False]
    sources, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    sources.write_text("one\n")
    assert run("sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "4",
               "-o", out).code == 0
    assert run("decode", out).code == 0


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_no_sampler_s_infinite_log_probabilities_are_written(bad):
    found = columns([Sample("a", logprob=bad, truncated_logprob=-1.0), Sample("b", logprob=-1.0)])
    assert "logprobs" not in found
    assert found == {"samples": ["a", "b"], "counts": [1, 1]}


def test_lengths_are_those_of_the_tokens(server):
    [samples] = sampler(server).sample(["one"], 4)
    assert columns(samples, repeat=True)["lengths"] == [3] * 4
    assert columns([Sample("a", tokens=(5, 6)), Sample("")])["lengths"] == [2, 0]
    assert "lengths" not in columns([Sample("a"), Sample("b")])


@pytest.mark.parametrize(("details", "length"), [
    ({}, 9), ({"completion_tokens_details": {"reasoning_tokens": 4}}, 5),
    ({"completion_tokens_details": None}, 9),
    ({"completion_tokens_details": {"reasoning_tokens": 99}}, None),
    ({"completion_tokens": -1}, None), ({"completion_tokens": True}, None),
    ({"completion_tokens": "9"}, None), ({"completion_tokens": 10**400}, None)])
def test_usage_tells_the_length_of_an_only_choice(server, details, length):
    server.always = lambda h: h.reply(200, {"choices": openai_server.choices(h), "usage": {
        "prompt_tokens": 1, "completion_tokens": 9} | details})
    [[sample]] = sampler(server, logprobs=False).sample(["one"], 1)
    assert sample.length == length


def test_usage_adds_up_over_the_requests_of_a_prompt(server, tmp_path):
    server.usage = True
    [samples] = sampler(server).sample(["one"], 6)
    assert isinstance(samples, Samples)
    assert samples.usage == {"prompt_tokens": 10, "completion_tokens": 18}
    path = write(tmp_path / "in.jsonl", {"source": "one"})
    [record] = run("sample", path, "--endpoint", server.endpoint, "--model", "m", "-n", "6",
                   "--per-request", "4").records
    assert record["usage"] == {"prompt_tokens": 10, "completion_tokens": 18}


def test_usage_of_one_choice_is_not_taken_for_that_of_all(server):
    """llama.cpp reports that of the first."""
    server.always = lambda h: h.reply(200, {"choices": openai_server.choices(h), "usage": {
        "prompt_tokens": 5, "completion_tokens": 3}})
    assert sampler(server).sample(["one"], 4)[0].usage == {
        "prompt_tokens": 5, "completion_tokens": 12}


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": None}, "x", {"x": 1}])
def test_usage_that_is_not_told_is_none(server, usage):
    server.always = lambda h: h.reply(200, {"choices": openai_server.choices(h), "usage": usage})
    assert sampler(server).sample(["one"], 2)[0].usage is None


# -- what is sent -----------------------------------------------------------------------------


@pytest.mark.parametrize(("stop", "sent"), [
    ("Q:", ["Q:"]), ('["\\n\\n", "Q:"]', ["\n\n", "Q:"]), ("\\n", ["\\n"])])
def test_texts_that_end_a_sample_reach_the_server(server, stop, sent):
    sampler(server, stop=stop, top_k=5).sample(["one"], 1)
    assert server.bodies[0]["stop"] == sent
    assert server.bodies[0]["top_k"] == 5


@pytest.mark.parametrize("stop", ["[1]", "[", '["a", null]', "[" * 10**5])
def test_stop_is_a_text_or_a_list_of_them(server, stop):
    with pytest.raises(InputError, match="JSON list"):
        sampler(server, stop=stop)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_chat_with_a_system_message_gets_no_second_one(server, role):
    chat = [{"role": role, "content": "mine"}, {"role": "user", "content": "hi"}]
    sampler(server, system="theirs").sample([chat], 1)
    assert server.bodies[0]["messages"] == chat


def test_messages_of_any_content_pass_through(server, tmp_path):
    chat = [{"role": "user", "content": [{"type": "text", "text": "what is this?"},
                                         {"type": "image_url", "image_url": {"url": "data:,x"}}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
            {"role": "tool", "tool_call_id": "1", "content": "a cat"}, {"role": "assistant"}]
    path = write(tmp_path / "in.jsonl", {"messages": chat})
    result = run("sample", path, "--endpoint", server.endpoint, "--model", "m", "-n", "1")
    assert result.code == 0
    assert server.bodies[0]["messages"] == chat
    assert result.records[0]["messages"] == chat


def test_what_an_earlier_run_wrote_of_its_samples_does_not_stay(server, tmp_path):
    path = write(tmp_path / "in.jsonl", {"source": "one", "finish_reasons": ["length"],
                                         "reasoning": ["hm"], "usage": {"prompt_tokens": 1}})
    [record] = run("sample", path, "--endpoint", server.endpoint, "--model", "m", "-n", "1").records
    assert not record.keys() & {"finish_reasons", "reasoning", "usage"}


def test_nothing_is_told_of_a_server_that_takes_all(server):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler(server).sample(["one"], 4)


def test_a_reason_to_finish_that_is_no_text_is_none():
    [choice] = read_choices({"choices": [{"message": {"content": ""}, "finish_reason": ["stop"]}]})
    assert (choice.text, choice.finish_reason) == ("", None)
