"""How far samples disagree, and answers without text where they disagree too much."""

from __future__ import annotations

import pytest

from commands import PATIENCE, read, run
from mbr_server import serving, settings
from upstream import mock_upstream

# three of them mean the same
AGREEING = ["the cat sat on it", "a cat sat on it", "the cat sat on it", "no idea"]
DISAGREEING = ["the cat sat", "no idea", "42", "purple rain"]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "What did the cat do?"}]}


@pytest.fixture
def agreeing():
    with mock_upstream(*AGREEING) as found:
        yield found


@pytest.fixture
def disagreeing():
    with mock_upstream(*DISAGREEING) as found:
        yield found


def test_the_numbers_are_those_of_decode(agreeing, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(agreeing.url, settings(uncertainty=True), record=path) as server:
        found = server.chat().body["minrisk"]
    [decoded] = run("decode", path, "--uncertainty", "--confidence", "-q").records
    assert found["uncertainty"] == decoded["uncertainty"]
    assert (found["uncertainty"]["clusters"], found["uncertainty"]["largest"]) == (2, 0.75)
    assert found["confidence"] == decoded["confidence"]["probability"]
    assert "abstained" not in found


def test_answers_have_no_uncertainty_unless_the_operator_wants_it(agreeing):
    with serving(agreeing.url) as server:
        assert "uncertainty" not in server.chat().body["minrisk"]


def test_a_stream_has_the_same_numbers(agreeing):
    with serving(agreeing.url, settings(uncertainty=True)) as server:
        whole = server.chat().body["minrisk"]
        streamed = server.chat(stream=True).events[-2]["minrisk"]
    assert streamed["uncertainty"] == whole["uncertainty"]


def test_a_ranking_has_the_same_numbers(agreeing):
    with serving(agreeing.url, settings(uncertainty=True)) as server:
        ranked = server.call("/v1/rank", {"candidates": AGREEING}).body["minrisk"]
        assert ranked["uncertainty"] == server.chat().body["minrisk"]["uncertainty"]


def test_samples_that_agree_are_answered(agreeing):
    with serving(agreeing.url, settings(abstain=0.75)) as server:
        reply = server.chat()
    assert reply.text == AGREEING[0]
    assert reply.body["minrisk"]["uncertainty"]["largest"] == 0.75
    assert "abstained" not in reply.body["minrisk"]


def test_an_abstention_is_a_refusal_without_content(disagreeing):
    with serving(disagreeing.url, settings(abstain=0.5)) as server:
        reply = server.chat()
        counted = server.call("/metrics").raw.decode()
    [choice] = reply.body["choices"]
    reason = ("The samples disagree: the largest cluster of similar ones has 25% of them.")
    assert choice == {
        "index": 0, "logprobs": None, "finish_reason": "stop",
        "message": {"role": "assistant", "content": None, "refusal": reason}}
    assert reply.status == 200
    assert reply.body["minrisk"]["abstained"] is True
    assert reply.body["usage"]["completion_tokens"] == 12
    assert reply.headers["x-minrisk-abstained"] == "true"
    assert server.requests[0]["abstained"] is True
    assert "minrisk_abstentions_total 1" in counted


def test_an_abstention_is_streamed_as_a_refusal(disagreeing):
    with serving(disagreeing.url, settings(abstain=0.5)) as server:
        *events, end = server.chat(stream=True).events
    assert end is None
    deltas = [one["choices"][0]["delta"] for one in events]
    assert deltas[0] == {"role": "assistant", "content": None}
    assert deltas[1]["refusal"].startswith("The samples disagree")
    assert deltas[2] == {}
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["minrisk"]["abstained"] is True


def test_an_abstention_of_a_plain_completion_is_an_empty_text(disagreeing):
    with serving(disagreeing.url, settings(abstain=0.5)) as server:
        body = {"model": "m", "prompt": "x"}
        reply = server.call("/v1/completions", body)
        [event, _] = server.call("/v1/completions", body | {"stream": True}).events
    assert reply.body["choices"] == [
        {"text": "", "logprobs": None, "finish_reason": "stop", "index": 0}]
    assert (event["choices"][0]["text"], event["minrisk"]["abstained"]) == ("", True)


def test_a_client_that_wants_several_choices_gets_as_many_refusals(disagreeing):
    with serving(disagreeing.url, settings(abstain=0.5)) as server:
        choices = server.chat(n=3).body["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert all(choice["message"]["content"] is None for choice in choices)


def test_candidates_of_an_abstention_come_on_request(disagreeing):
    with serving(disagreeing.url, settings(abstain=0.5)) as server:
        found = server.chat(minrisk={"return_candidates": True}).body["minrisk"]["candidates"]
    assert sorted(choice["message"]["content"] for choice in found) == sorted(DISAGREEING)


def test_a_request_that_passes_through_is_never_an_abstention(disagreeing):
    with serving(disagreeing.url, settings(abstain=1.0)) as server:
        assert server.chat(temperature=0).text == DISAGREEING[0]


def test_decode_abstains_from_the_same_records(tmp_path):
    path = tmp_path / "record.jsonl"
    with (mock_upstream(*AGREEING, *DISAGREEING) as own,
          serving(own.url, settings(abstain=0.5), record=path) as server):
        replies = [server.chat().body for _ in range(2)]
    records = read(path.read_text(encoding="utf-8"))
    decoded = run("decode", path, "--abstain", 0.5, "-q").records
    assert [one["text"] for one in decoded] == [one["chosen"] for one in records] == [
        AGREEING[0], None]
    for found in (records, decoded, [reply["minrisk"] for reply in replies]):
        assert [one.get("abstained") for one in found] == [None, True]


def test_the_official_client_sees_a_refusal(disagreeing):
    openai = pytest.importorskip("openai")
    with (serving(disagreeing.url, settings(abstain=0.5)) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client):
        message = client.chat.completions.create(**CHAT).choices[0].message
        with client.chat.completions.stream(**CHAT) as stream:
            streamed = stream.get_final_completion().choices[0].message
    for found in (message, streamed):
        assert found.content is None
        assert found.refusal.startswith("The samples disagree")
