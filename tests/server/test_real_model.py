"""A real small language model behind llama.cpp's server, and ours in front of it."""

from __future__ import annotations

import json

import pytest

from commands import run
from llama_server import IS_INSTALLED, REASON, llama_server
from mbr_server import serving, settings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_INSTALLED, reason=REASON)]


@pytest.fixture(scope="module")
def upstream():
    with llama_server() as url:
        yield url


def test_an_answer_is_the_choice_of_decode_among_the_recorded_samples(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream, settings(samples=6), record=path) as server:
        replies = [server.chat(text, max_tokens=12, seed=1) for text in (
            "What is the capital of France?", "Name a colour.")]
        stream = server.chat("Say hello.", max_tokens=8, stream=True).events
    for reply in replies:
        assert reply.status == 200
        assert reply.body["minrisk"]["samples"] == 6
    assert stream[-1] is None
    decoded = run("decode", path).records
    assert [one["text"] for one in decoded[:2]] == [reply.text.strip() for reply in replies]


@pytest.mark.parametrize(("per_request", "fields", "is_known"), [
    (16, {}, False), (1, {}, True), (16, {"logprobs": True}, True)],
    ids=["together", "one by one", "with log-probabilities"])
def test_usage_is_that_of_all_samples_or_left_out(upstream, per_request, fields, is_known):
    """The server counts the tokens of the first choice of a request alone."""
    options = {"include_usage": True}
    with serving(upstream, settings(samples=4), per_request=per_request) as server:
        body = server.chat("Count from one to a hundred.", max_tokens=3, **fields).body
        *_, last, _ = server.chat("Say hello.", max_tokens=3, stream=True, stream_options=options,
                                  **fields).events
    found = [body.get("usage"), last["usage"]]
    assert [usage is not None for usage in found] == [is_known] * 2
    if is_known:
        assert [usage["completion_tokens"] for usage in found] == [12, 12]


def test_a_vote_among_short_answers(upstream):
    chosen = settings("exact-match", 8, model="any", allow=("chrf",))
    with serving(upstream, chosen, per_request=2) as server:
        reply = server.chat("Is the sky blue? Answer yes or no.", model="any", max_tokens=3,
                            temperature=0.3)
    assert reply.status == 200
    assert 1 <= reply.body["minrisk"]["samples"] <= 8


def test_responses_keep_the_schema_and_the_limit(upstream):
    """The server has the route itself, which does neither."""
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
              "required": ["city"], "additionalProperties": False}
    with serving(upstream, settings(samples=3)) as server:
        found = server.respond("Name a city.", text={"format": {
            "type": "json_schema", "name": "place", "schema": schema}}, max_output_tokens=60)
        cut = server.respond("Count from one to a hundred.", max_output_tokens=3)
    assert json.loads(found.output_text).keys() == {"city"}
    assert cut.body["status"] == "incomplete"
