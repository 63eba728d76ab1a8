"""Answers of `serve` that are composed of the samples, for requests with a JSON format."""

from __future__ import annotations

import json

import pytest

from mbr_server import serving, settings
from minrisk import Compose, JsonMatch
from upstream import mock_upstream

SPLIT = ['{"a": 1, "b": 1, "c": 2}', '```\n{"a": 1, "b": 2, "c": 1}\n```',
         '{"a": 2, "b": 1, "c": 1}']
COMPOSED = {"a": 1, "b": 1, "c": 1}


def wanted(**schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def ask(response_format, texts=SPLIT, **fields):
    chosen = settings(samples=len(texts), json_strategy=Compose(JsonMatch(by="field")))
    with mock_upstream(*texts) as own, serving(own.url, chosen) as server:
        return server.chat(response_format=response_format, **fields)


def test_the_answer_to_a_request_for_json_has_the_consensus_in_each_field():
    reply = ask({"type": "json_object"}, n=2)
    assert json.loads(reply.text) == COMPOSED
    assert reply.body["choices"][1]["message"]["content"] in SPLIT
    proposal = reply.body["minrisk"]["proposal"]
    assert proposal["kept"]
    assert proposal["shares"] == {f".{name}": pytest.approx(2 / 3) for name in "abc"}
    assert reply.body["minrisk"]["utility"] == pytest.approx(proposal["utility"])
    assert proposal["utility"] >= proposal["best_utility"]
    assert "strategy:compose" in reply.body["minrisk"]["signature"]


def test_a_stream_has_it_too():
    reply = ask({"type": "json_object"}, stream=True)
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in reply.events[:-1])
    assert json.loads(text) == COMPOSED


def test_other_requests_get_a_sample():
    assert ask({"type": "text"}).text in SPLIT


@pytest.mark.parametrize(("schema", "is_kept"), [
    ({"properties": {"a": {"type": "integer"}}}, True),
    ({"properties": {"c": {"const": 2}}}, False),
    ({"$ref": "http://127.0.0.1:9/none"}, False)])
def test_the_schema_of_the_request_must_allow_it(schema, is_kept):
    pytest.importorskip("jsonschema", reason="needs the extra minrisk[json]")
    reply = ask(wanted(**schema))
    assert (reply.text in SPLIT) != is_kept
    assert reply.body["minrisk"]["proposal"]["kept"] == is_kept
    assert is_kept or "schema" in reply.body["minrisk"]["proposal"]["reason"]


@pytest.mark.parametrize("schema", [{"type": 7}, {"pattern": "("}, {"$schema": []}])
def test_an_invalid_schema_leaves_the_best_sample(schema):
    pytest.importorskip("jsonschema", reason="needs the extra minrisk[json]")
    reply = ask(wanted(**schema))
    assert reply.text in SPLIT
    assert "strategy:standard" in reply.body["minrisk"]["signature"]


def test_the_responses_api_has_it():
    chosen = settings(samples=3, json_strategy=Compose(JsonMatch(by="field")))
    with mock_upstream(*SPLIT) as own, serving(own.url, chosen) as server:
        reply = server.respond(text={"format": {"type": "json_object"}})
    assert json.loads(reply.output_text) == COMPOSED


@pytest.mark.parametrize("text", ["[" * 600 + "]" * 600, '{"a": NaN}', json.dumps([*range(60000)])])
def test_hostile_samples_leave_the_best_sample(text):
    texts = [text, '{"a": 1}', '{"a": 1}']
    assert ask(wanted(type="object"), texts).text in texts
