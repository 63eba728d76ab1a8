"""Answers and votes in a response: shares of all samples, of tool calls and JSON too."""

from __future__ import annotations

import json

import pytest

from mbr_server import serving, settings
from minrisk.metrics.votes.exact_match import ExactMatch
from tolerance import assert_close
from upstream import mock_upstream


def call(city):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function",
         "function": {"name": "weather", "arguments": json.dumps({"unit": "C", "city": city})}}]}


def asked(texts, metric="chrf", samples=None, **options):
    chosen = settings(metric, samples or len(texts), uncertainty=True, stop_error=None, **options)
    with mock_upstream(*texts) as own, serving(own.url, chosen) as server:
        return server.chat().body


@pytest.mark.parametrize("metric", ["chrf", "exact-match", "json-match"])
def test_equal_tool_calls_are_votes_whatever_the_metric(metric):
    found = asked([call("Paris")] * 3 + [call("London")], metric)["minrisk"]
    assert [json.loads(answer)["arguments"]["city"] for answer in found["votes"]] == [
        "Paris", "London"]
    assert [*found["votes"].values()] == [0.75, 0.25]
    assert found["uncertainty"]["largest"] == 0.75
    assert found["uncertainty"]["clusters"] == 2


def test_samples_that_call_no_tool_are_dissent():
    body = asked([call("Paris"), call("Paris"), call("London"), "It is warm."], abstain=0.6)
    found = body["minrisk"]
    assert found["abstained"]
    assert_close(found["uncertainty"]["largest"], 0.5)
    assert_close(found["uncertainty"]["unanswered"], 0.25)
    assert [*found["votes"].values()] == [0.5, 0.25]


def test_truncated_and_empty_samples_are_dissent():
    with (mock_upstream("it is 7", "it is 7", "so 7", "") as own, serving(
            own.url, settings(ExactMatch(r"\d+"), 4, uncertainty=True)) as server):
        own.finish_reasons = iter(["stop", "stop", "length", "stop"])
        found = server.chat().body["minrisk"]
    assert (found["answer"], found["votes"]) == ("7", {"7": 0.5})
    assert found["uncertainty"]["unanswered"] == 0.5


def test_dissent_is_no_candidate_where_samples_are_equal():
    found = asked(["it is 7", "it is 7", "", " "], ExactMatch(r"\d+"))["minrisk"]
    assert (found["votes"], found["distinct"]) == ({"7": 0.5}, 1)


@pytest.mark.filterwarnings("ignore:exact-match. the pattern")
def test_where_no_sample_has_an_answer_there_is_none():
    found = asked(["no idea", "what?"], ExactMatch(r"\d+"), abstain=0.1)["minrisk"]
    assert found["abstained"]
    assert (found["answer"], found["votes"], found["uncertainty"]["largest"]) == (None, {}, 0)


def test_a_ranking_has_the_answer_and_the_votes_too():
    with (mock_upstream("x") as own,
          serving(own.url, settings("json-match")) as server):
        found = server.call("/v1/rank", {"candidates": ["[1]", "[1.0]", "[2]", "?"]}).body
    assert found["minrisk"]["answer"] == "[1]"
    assert found["minrisk"]["votes"] == {"[1]": 0.5, "[2]": 0.25}


def test_graded_metrics_have_no_votes():
    assert not {"answer", "votes"} & asked(["a cat", "the cat"])["minrisk"].keys()


def test_the_share_of_a_vote_has_its_interval():
    found = asked(["4", "4", "4", "5"], "exact-match")["minrisk"]
    low, high = found["interval"]
    assert 0 < low < found["share"] == 0.75 < high < 1
    assert 0 < found["confidence"] < 1


def test_why_there_is_no_confidence_is_said():
    found = asked(["Four.", "Five."], ExactMatch(pattern=r"\d+"))["minrisk"]
    assert found["confidence"] is None
    assert found["no_confidence"]
