"""Any JSON from clients and upstreams: an answer or an error object, never a crash."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from mbr_server import settings
from minrisk.io.records import Weighting
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.encoding import Encoder, encoded
from minrisk.openai.responses import check_response, read_choices, read_usage
from minrisk.openai.responses_api import as_completion, check_response_object
from minrisk.server.app import Server
from minrisk.server.executor import RankingExecutor
from minrisk.server.monitoring import Trace
from minrisk.server.requests import read_json, read_ranking_request, read_request
from minrisk.server.responses import ApiError
from minrisk.server.responses_format import ResponsesFormat
from minrisk.server.responses_requests import read_responses_request
from minrisk.server.sampling import SampleLimit, new_collector

EXECUTOR = RankingExecutor(1)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False,
                                                                 allow_infinity=False)
    | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6)


def fields(*names, **fixed):
    """Objects with some of these fields, each with any value or one that fits."""
    return st.fixed_dictionaries({}, optional={
        **dict.fromkeys(names, ANY), **{name: own | ANY for name, own in fixed.items()}})


OURS = fields("samples", "metric", "strategy", "seed", "return_candidates", "other")
BODIES = fields(
    "prompt", "model", "temperature", "seed", "response_format", "stop", "tools", "logprobs",
    n=st.integers(-1, 5), best_of=st.integers(0, 5), stream=st.booleans(), minrisk=OURS,
    stream_options=fields("include_usage"),
    messages=st.lists(fields("role", "content"), min_size=1, max_size=2))
PARTS = st.lists(fields("type", "text", "image_url", "file_data", "input_audio", text=st.text(),
                        type=st.sampled_from(["input_text", "output_text", "refusal", "input_image",
                                              "input_file", "input_audio"])), max_size=2)
ITEMS = st.lists(fields(
    "type", "role", "content", "summary", "call_id", "name", "arguments", "output", "input",
    type=st.sampled_from(["message", "reasoning", "function_call", "function_call_output",
                          "custom_tool_call", "item_reference"]),
    role=st.sampled_from(["user", "assistant", "developer"]), content=PARTS, output=PARTS,
    call_id=st.text(), name=st.text(), arguments=st.text(), input=st.text()), max_size=3)
TOOL = fields("type", "name", "format", "tools", "mode", name=st.text(),
              type=st.sampled_from(["function", "custom", "allowed_tools", "web_search"]))
RESPONSES = fields(
    "instructions", "reasoning", "metadata", "truncation", "store", "background", "model",
    "temperature", "top_logprobs", "max_output_tokens", "previous_response_id", "conversation",
    "other", input=st.text(min_size=1) | ITEMS, text=fields("format", "verbosity", format=fields(
        "type", "schema", type=st.sampled_from(["text", "json_object", "json_schema"]))),
    tools=st.lists(TOOL, max_size=2), tool_choice=TOOL, include=st.lists(ANY, max_size=2),
    stream=st.booleans(), minrisk=OURS)
CALLS = st.lists(fields("id", "type", "index", function=fields(
    "name", "arguments", name=st.sampled_from("fg"), arguments=ANY.map(json.dumps))), max_size=2)
MESSAGES = fields("role", "content", "refusal", "reasoning", "function_call", "annotations",
                  content=st.sampled_from(["a", "b", "<think>x</think>a", '{"a": 1}', ""]),
                  tool_calls=CALLS)
CHOICES = st.fixed_dictionaries({"message": MESSAGES}, optional={
    "finish_reason": st.sampled_from(["stop", "length", "content_filter"]) | ANY,
    "index": ANY, "logprobs": ANY, "other": ANY}) | st.fixed_dictionaries({"text": st.text()})
ANSWERS = st.fixed_dictionaries({"choices": st.lists(CHOICES, min_size=1, max_size=5)}, optional={
    "usage": fields("prompt_tokens", "completion_tokens", "completion_tokens_details",
                    prompt_tokens=st.integers(0, 9), completion_tokens=st.integers(0, 9)),
    "id": ANY, "model": ANY, "object": ANY, "created": ANY, "error": ANY})
PARTS = st.lists(fields(
    "type", "text", "refusal", "logprobs", "annotations", text=st.text(),
    type=st.sampled_from(["output_text", "refusal", "summary_text"])), max_size=2)
ITEMS = fields("type", "id", "role", "status", "content", "summary", "name", "arguments", "call_id",
               content=PARTS, summary=PARTS, arguments=st.text(), type=st.sampled_from([
                   "message", "reasoning", "function_call", "custom_tool_call", "mcp_call"]))
OBJECTS = st.fixed_dictionaries({"output": st.lists(ITEMS, max_size=3)}, optional={
    "status": st.sampled_from(["completed", "incomplete"]), "incomplete_details": ANY,
    "usage": fields("input_tokens", "output_tokens", "input_tokens_details",
                    input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
    "id": ANY, "model": ANY, "error": ANY})


@given(BODIES, st.sampled_from(["chat", "completions"]))
def test_any_body_is_a_call_or_an_error(body, api):
    raw = json.dumps(body).encode()
    with suppress(ApiError):
        request = read_request(api, read_json(raw), settings())
        json.dumps(request.upstream_request().fields(0, request.samples))
        json.dumps(request.pass_through_body())
        assert isinstance(request.source, str | None)


@given(RESPONSES)
def test_any_body_is_a_chat_or_an_error(body):
    with suppress(ApiError):
        found = read_responses_request(json.dumps(body).encode())
        request = found.translated(settings())
        json.dumps(request.upstream_request().fields(0, request.samples))
        assert isinstance(request.source, str | None)
        assert all("content" in one or "tool_calls" in one for one in request.given["messages"])


@given(RESPONSES)
def test_any_body_is_forwarded_or_an_error(body):
    with suppress(ApiError):
        found = read_responses_request(json.dumps(body).encode())
        request = found.forwarded(settings(weighting=Weighting("logprobs")))
        json.dumps(request.upstream_request().fields(0, 1))
        json.dumps(request.pass_through_body())
        assert isinstance(request.source, str | None)


@given(fields("candidates", "references", "source", "weights", "counts", "model", "metric",
              "strategy", "seed", candidates=st.lists(st.text(max_size=3), max_size=3)))
def test_any_body_is_a_ranking_or_an_error(body):
    with suppress(ApiError):
        segment, strategy = read_ranking_request(read_json(json.dumps(body).encode()), settings())
        strategy.rank([segment])


class Given:
    def __init__(self, answers):
        self.answers = answers

    async def sample(self, request, waves, admission, report):
        for answer in self.answers:
            choices = read_choices(answer)
            usage = read_usage(answer, choices)
            report(CompletionResponse(choices, usage, answer), len(choices))


@given(ANSWERS, st.booleans(), st.sampled_from(["chrf", "exact-match", "json-match"]))
def test_any_answer_of_an_upstream_becomes_a_completion_and_a_stream(answer, as_json, metric):
    assert check_response(answer) is None
    check_written([answer], as_json, metric)


@given(st.lists(OBJECTS, min_size=1, max_size=3), st.booleans(),
       st.sampled_from(["exact-match", "json-match"]))
def test_any_response_of_an_upstream_becomes_one_of_ours(responses, as_json, metric):
    assert [check_response_object(one) for one in responses] == [None] * len(responses)
    check_written([as_completion(one) for one in responses], as_json, metric)


def check_written(answers, as_json, metric):
    chosen = settings(metric, samples=max(2, sum(len(one["choices"]) for one in answers)))
    given = {"messages": [{"role": "user", "content": "x"}], "stream_options":
             {"include_usage": True}, "minrisk": {"return_candidates": True}}
    if as_json:
        given["response_format"] = {"type": "json_object"}
    request = read_request("chat", given, chosen)

    async def main():
        server = Server(Given(answers), chosen, SampleLimit(64, 1))
        server.executor = EXECUTOR  # whose process is started once
        collector = new_collector(request, chosen, EXECUTOR)
        return await server.complete(request, collector, Trace("id", "route"))

    found = asyncio.run(main())
    assert len(found.choices) == 1
    json.dumps(found.body)
    assert all(value.isprintable() for value in found.headers.values())
    events = [json.loads(encoded(chunk)) for chunk in found.chunks()]
    assert events[-1]["choices"] == []
    response = json.loads(asyncio.run(ResponsesFormat(Encoder(), {}, request).whole(found)))
    written = asyncio.run(ResponsesFormat(Encoder(), {}, request).last(found, is_relayed=False))
    shown = [json.loads(one.partition(b"data: ")[2]) for one in written]
    assert shown[-1]["type"] == f"response.{response['status']}"
    assert [one["sequence_number"] for one in shown] == list(range(len(shown)))
