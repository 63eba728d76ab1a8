"""Sampling that ends when a vote among the samples is decided."""

from __future__ import annotations

import pytest

import minrisk
from commands import run
from minrisk._core.errors import InputError
from minrisk.samplers.openai import Endpoint
from openai_server import altered

YES = {"message": {"content": "I think so.\nAnswer: yes"}}
NO = {"message": {"content": "Answer: no"}}


def sampler(server, **options):
    return Endpoint("m", server.endpoint, **({"per_request": 4, "vote": "Answer: (.*)"} | options))


def test_a_prompt_is_sampled_until_one_answer_has_won(server):
    server.always = altered(YES)
    [samples] = sampler(server).sample(["one"], 64)
    assert len(samples) == 12  # the first block after which 9 agree


def test_a_vote_ends_early_also_where_one_request_could_have_all_samples(server):
    server.always = altered(YES)
    [samples] = sampler(server, per_request=16).sample(["one"], 16)
    assert len(samples) == 9
    [samples] = Endpoint("m", server.endpoint, vote="Answer: (.*)").sample(["one"], 64)
    assert len(samples) == 9


def test_a_vote_that_is_not_decided_goes_on(server):
    server.always = altered(YES, NO)
    [samples] = sampler(server).sample(["one"], 24)
    assert len(samples) == 24


def test_a_vote_ends_when_nobody_can_catch_up(server):
    server.always = altered(YES, YES, YES, NO)
    [samples] = sampler(server, vote_error=1e-9).sample(["one"], 16)
    assert len(samples) == 12  # 9 to 3, and 4 to come


def test_samples_without_an_answer_vote_for_none(server):
    server.always = altered({"message": {"content": "no idea"}})
    [samples] = sampler(server).sample(["one"], 20)
    assert len(samples) == 20


def test_the_same_seed_draws_the_same_samples(server):
    one, other = (sampler(server, vote=r"(red|blue)", concurrency=c).sample(["x", "y"], 32, seed=1)
                  for c in (1, 8))
    assert one == other


def test_sample_and_translate_take_it_as_an_option(server):
    server.always = altered(YES)
    fields = ("--endpoint", server.endpoint, "--model", "m", "-n", 64, "--per-request", 4,
              "--vote", "Answer: (.*)", "-q")
    result = run("sample", *fields, stdin=b"one\n")
    assert result.code == 0, result.err
    assert result.records[0]["counts"] == [12]
    result = run("translate", *fields, "--prompt", "{source}", "--format", "json", stdin=b"one\n")
    assert result.code == 0, result.err


@pytest.mark.parametrize("options", [{"vote": "("}, {"vote_error": 0.0}, {"vote_error": 1.0}])
def test_a_vote_that_makes_no_sense_is_refused(server, options):
    with pytest.raises(InputError, match="vote"):
        sampler(server, **options)


# two equal texts are closest to each other by chrF, and lose the vote
WINNERS = [{"message": {"content": f"{text}\nAnswer: yes"}} for text in (
    "Certainly!", "It has been like that for ages.", "Why not, given 3 of 4 do?")]
LOSERS = [{"message": {"content": "I doubt it very much, to be frank.\nAnswer: no"}}] * 2


@pytest.fixture
def _one_wave(monkeypatch):
    monkeypatch.setattr("minrisk._core.vote._SMALLEST_WAVE", 5)


@pytest.mark.usefixtures("_one_wave")
@pytest.mark.parametrize("command", ["answer", "translate"])
def test_the_winner_of_the_vote_is_chosen_unless_there_is_a_metric(server, command):
    server.always = altered(*WINNERS, *LOSERS)
    fields = (command, "--endpoint", server.endpoint, "--model", "m", "-n", 5, "--prompt",
              "{source}", "--format", "json", "--vote", "Answer: (.*)")
    [found] = run(*fields, stdin=b"one\n").records
    assert found["answer"] == "yes"
    assert found["votes"] == pytest.approx({"yes": 0.6, "no": 0.4})
    for metric in (["--metric", "chrf"], ["--metric.order", 6]):
        [found] = run(*fields, *metric, stdin=b"one\n").records
        assert found["text"].endswith("no")
        assert "votes" not in found


@pytest.mark.usefixtures("_one_wave")
@pytest.mark.parametrize("call", [minrisk.answer, minrisk.translate])
def test_python_chooses_the_winner_of_the_vote_unless_there_is_a_metric(server, call):
    server.always = altered(*WINNERS, *LOSERS)
    prompts, endpoint = [{"prompt": "one"}], sampler(server, per_request=5)
    [by_object] = call(prompts, 5, sampler=endpoint)
    [by_name] = call(prompts, 5, model="m", endpoint=server.endpoint, vote="Answer: (.*)")
    assert by_object.details["answer"] == by_name.details["answer"] == "yes"
    for other in ({"metric": "chrf"}, {"strategy": minrisk.Standard("chrf")}):
        [found] = call(prompts, 5, sampler=endpoint, **other)
        assert found.text.endswith("no")
