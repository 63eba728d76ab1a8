"""`/v1/responses`: requests as chats, responses and events from their answers."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from commands import PATIENCE, read, run
from mbr_server import Reply, serving, settings
from minrisk.io.weighting import Weighting
from upstream import events, failing, mock_upstream

SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "cat"}'}}]}
THINKING = {"role": "assistant", "content": "4", "reasoning_content": "2 + 2 is 4"}


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


@pytest.fixture
def server(upstream):
    with serving(upstream.url) as found:
        yield found


def sent_for(upstream, server, found="x", **fields):
    """What the upstream gets for a request."""
    reply = server.respond(found, **fields)
    assert reply.status == 200, reply.raw
    return upstream.bodies[-1]


def messages_for(upstream, server, *items, **fields):
    return sent_for(upstream, server, list(items), **fields)["messages"]


# answers


def test_a_response_has_the_best_sample(server, upstream):
    reply = server.respond("What did the cat do?", instructions="Be brief.", metadata={"a": "b"})
    body = reply.body
    assert upstream.bodies[0]["messages"] == [{"role": "system", "content": "Be brief."},
                                              {"role": "user", "content": "What did the cat do?"}]
    assert upstream.bodies[0]["n"] == 4
    assert reply.output_text == "the cat sat"
    assert (body["object"], body["status"], body["model"]) == ("response", "completed", "m")
    assert body["id"].startswith("resp_")
    assert (body["instructions"], body["metadata"]) == ("Be brief.", {"a": "b"})
    assert body["store"] is False
    assert body["usage"] == {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 19}
    assert body["minrisk"]["samples"] == 4
    assert reply.headers["x-minrisk-samples"] == "4"


def test_the_minrisk_object_of_a_request_applies(server):
    options = {"samples": 3, "return_candidates": True}
    found = server.respond(minrisk=options, seed=3).body["minrisk"]
    assert found["samples"] == 3
    texts = [one["output"][0]["content"][0]["text"] for one in found["candidates"]]
    assert sorted(texts) == sorted(SAMPLES[:3])


def test_usage_is_null_where_the_upstream_counts_nothing(server, upstream):
    upstream.usage = False
    assert server.respond().body["usage"] is None


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"),
                                                ("content_filter", "content_filter")])
def test_a_truncated_answer_is_incomplete(server, upstream, finish, reason):
    upstream.finish_reasons = iter([finish] * 4)
    body = server.respond(max_output_tokens=5).body
    assert upstream.bodies[0]["max_tokens"] == 5
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert body["output"][-1]["status"] == "incomplete"


def test_reasoning_is_that_of_the_chosen_sample():
    other = {"role": "assistant", "content": "5", "reasoning_content": "a guess"}
    with mock_upstream(other, THINKING, THINKING, other, THINKING) as own, serving(
            own.url, settings("exact-match", 5)) as server:
        reasoning, message = server.respond().body["output"]
    assert reasoning["type"] == "reasoning"
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "2 + 2 is 4"}]
    assert message["content"][0]["text"] == "4"


def test_function_calls_and_text_are_items():
    both = CALL | {"content": "I will search."}
    with mock_upstream(both) as own, serving(own.url) as server:
        message, call = server.respond(tools=[{"type": "function", "name": "search"}]
                                       ).body["output"]
    assert message["content"][0]["text"] == "I will search."
    assert {name: call[name] for name in ("type", "call_id", "name", "arguments", "status")} == {
        "type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": "cat"}',
        "status": "completed"}


def test_a_refusal_and_an_abstention_are_refusals():
    with mock_upstream({"role": "assistant", "content": None, "refusal": "No."}) as own, serving(
            own.url) as server:
        [message] = server.respond().body["output"]
    assert message["content"] == [{"type": "refusal", "refusal": "No."}]
    with mock_upstream("red", "green", "blue", "grey") as own, serving(
            own.url, settings("exact-match", abstain=0.9, stop_error=None)) as server:
        body = server.respond().body
    assert body["output"][0]["content"][0]["type"] == "refusal"
    assert body["minrisk"]["abstained"] is True


def test_log_probabilities_and_annotations_are_kept():
    note = {"type": "url_citation", "url_citation": {"url": "http://x", "start_index": 0}}
    cited = {"role": "assistant", "content": "a", "annotations": [note]}
    with mock_upstream(cited) as own, serving(own.url) as server:
        [part] = server.respond(include=["message.output_text.logprobs"], top_logprobs=2
                                ).body["output"][0]["content"]
    assert own.bodies[0]["logprobs"] is True
    assert own.bodies[0]["top_logprobs"] == 2
    assert part["logprobs"][0]["logprob"] < 0
    assert part["annotations"] == [{"type": "url_citation", "url": "http://x", "start_index": 0}]


def test_log_probabilities_that_only_weigh_are_not_shown(upstream):
    with serving(upstream.url, settings(weighting=Weighting("logprobs"))) as server:
        [part] = server.respond().body["output"][0]["content"]
    assert upstream.bodies[0]["logprobs"] is True
    assert part["logprobs"] == []


def test_a_format_of_json_is_compared_as_json():
    texts = ['{"a": 1, "text": "some long words"}', '{"text": "some long words!", "a": 2}',
             '{ "a": 2.0, "text": "no" }', '{"a": 2}']
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "object"}}
    with mock_upstream(*texts) as own, serving(own.url) as server:
        reply = server.respond(text={"format": form, "verbosity": "low"})
    assert own.bodies[0]["response_format"] == {"type": "json_schema", "json_schema": {
        "name": "n", "strict": True, "schema": {"type": "object"}}}
    assert own.bodies[0]["verbosity"] == "low"
    assert "json-match" in reply.body["minrisk"]["signature"]
    assert json.loads(reply.output_text)["a"] == 2


def test_records_are_those_of_chats(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream.url, record=path) as server:
        reply = server.respond("What?", instructions="Be brief.")
    [record] = read(path.read_text(encoding="utf-8"))
    assert record["messages"][-1] == {"role": "user", "content": "What?"}
    assert record["chosen"] == "the cat sat"
    assert run("decode", path).records[0]["text"] == reply.output_text


def test_the_log_and_metrics_know_the_route(server):
    server.respond()
    assert server.requests[0]["route"] == "/v1/responses"
    assert server.requests[0]["model"] == "m"
    assert 'route="/v1/responses"' in server.call("/metrics").raw.decode()


# requests


def test_items_become_messages(server, upstream):
    found = messages_for(
        upstream, server,
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
            {"type": "input_file", "file_data": "AA", "filename": "a.pdf"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x", "content": [
            {"type": "reasoning_text", "text": "I should look."}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "I will look.", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look",
         "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "+x"},
        {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "done"}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Sure?"})
    assert found == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA",
                                                "detail": "low"}},
            {"type": "file", "file": {"file_data": "AA", "filename": "a.pdf"}}]},
        {"role": "assistant", "reasoning_content": "I should look.", "content": "I will look.",
         "tool_calls": [
             {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
             {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "+x"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Sure?"}]


def test_an_output_is_valid_input(server, upstream):
    """What an answer has, with its reasoning and calls, can be sent back."""
    with mock_upstream(CALL | {"reasoning_content": "I should search."}) as own, serving(
            own.url) as other:
        tools = [{"type": "function", "name": "search"}]
        output = other.respond(tools=tools).body["output"]
    found = messages_for(upstream, server, {"role": "user", "content": "x"}, *output, {
        "type": "function_call_output", "call_id": output[-1]["call_id"], "output": "cats"})
    assert found[1] == {"role": "assistant", "reasoning_content": "I should search.",
                        "tool_calls": CALL["tool_calls"]}
    assert found[2] == {"role": "tool", "tool_call_id": "c1", "content": "cats"}


def test_tools_and_their_choice(server, upstream):
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    body = sent_for(upstream, server, tools=[
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
        {"type": "custom", "name": "g", "format": grammar}],
        tool_choice={"type": "function", "name": "f"}, parallel_tool_calls=False)
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"},
                                          "strict": True}},
        {"type": "custom", "custom": {"name": "g", "format": {
            "type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}}}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert body["parallel_tool_calls"] is False
    allowed = {"type": "allowed_tools", "mode": "required",
               "tools": [{"type": "function", "name": "f"}]}
    body = sent_for(upstream, server, tools=[{"type": "function", "name": "f"}],
                    tool_choice=allowed)
    assert body["tool_choice"] == {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}}


def test_other_fields(server, upstream):
    body = sent_for(upstream, server, reasoning={"effort": "low", "summary": "auto"}, top_p=0.5,
                    temperature=0.7, store=True, background=False, truncation="disabled",
                    include=["reasoning.encrypted_content"], service_tier="flex", user="u",
                    max_tool_calls=3, stop=["x"], previous_response_id=None, top_logprobs=0)
    assert body.pop("seed") >= 0
    assert body == {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 4,
                    "reasoning_effort": "low", "top_p": 0.5, "temperature": 0.7,
                    "service_tier": "flex", "user": "u", "stop": ["x"]}


def test_a_limit_of_tokens_has_the_name_that_the_upstream_takes(server, upstream):
    refused = failing(400, "Unsupported parameter: 'max_tokens' is not supported with this model. "
                      "Use 'max_completion_tokens' instead.")

    async def answer(own, body):
        return await (refused if "max_tokens" in body else accepted)(own, body)

    accepted, upstream.answer = upstream.answer, answer
    assert server.respond(max_output_tokens=9).status == 200
    assert upstream.bodies[-1]["max_completion_tokens"] == 9


def test_temperature_zero_passes_through_visibly(server, upstream):
    reply = server.respond(temperature=0)
    assert reply.body["minrisk"]["passed_through"] is True
    assert reply.headers["x-minrisk-passed-through"] == "true"
    assert upstream.bodies[0].keys() == {"model", "messages", "temperature"}


@pytest.mark.parametrize(("param", "fields"), [
    ("previous_response_id", {"previous_response_id": "resp_1"}),
    ("conversation", {"conversation": "conv_1"}),
    ("background", {"background": True}),
    ("truncation", {"truncation": "auto"}),
    ("prompt", {"prompt": {"id": "p"}}),
    ("context_management", {"context_management": [{"type": "compaction"}]}),
    ("n", {"n": 2}),
    ("unheard_of", {"unheard_of": 1}),
    ("include[0]", {"include": ["everything"]}),
    ("tools[0].type", {"tools": [{"type": "web_search"}]}),
    ("tools[0].name", {"tools": [{"type": "function"}]}),
    ("tool_choice.type", {"tool_choice": {"type": "file_search"}}),
    ("minrisk", {"minrisk": {"unheard_of": 1}}),
    ("input", {"input": []}), ("input", {"input": None}), ("input", {"input": {"a": 1}}),
    ("input[0]", {"input": ["x"]}),
    ("input[0].type", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    ("input[0].type", {"input": [{"type": ["message"]}]}),
    ("input[0].role", {"input": [{"role": "tool", "content": "x"}]}),
    ("input[0].role", {"input": [{"role": ["user"], "content": "x"}]}),
    ("input[0].content", {"input": [{"role": "user", "content": 3}]}),
    ("input[0].content[0]", {"input": [{"role": "user", "content": ["x"]}]}),
    ("input[0].content[0].type", {"input": [{"role": "user", "content": [{"type": "video"}]}]}),
    ("input[0].content[0].type", {"input": [{"role": "user", "content": [
        {"type": "input_image", "file_id": "file_1"}]}]}),
    ("input[0].content[0].text", {"input": [{"role": "user", "content": [
        {"type": "input_text", "text": None}]}]}),
    ("input[0].call_id", {"input": [{"type": "function_call_output", "output": "x"}]}),
    ("input[0].arguments", {"input": [{"type": "function_call", "call_id": "c", "name": "f",
                                       "arguments": {}}]}),
    ("instructions", {"instructions": 3}), ("tools", {"tools": {}}), ("text", {"text": "json"}),
    ("text.format", {"text": {"format": "json"}}), ("reasoning", {"reasoning": "low"}),
    ("max_output_tokens", {"max_output_tokens": "9"}), ("stream", {"stream": "yes"}),
    ("store", {"store": 1}), ("model", {"model": 3})])
def test_what_cannot_be_done_is_refused(server, upstream, param, fields):
    """By the name of the field, before any sample is drawn."""
    reply = server.respond(**{"found": "x"} | {"found" if name == "input" else name: value
                                               for name, value in fields.items()})
    assert (reply.status, reply.body["error"]["param"]) == (400, param)
    assert reply.body["error"]["type"] == "invalid_request_error"
    assert not upstream.bodies


def test_errors_of_the_upstream_keep_their_status(server, upstream):
    upstream.answer = failing(422, "no such thing")
    for stream in (False, True):
        reply = server.respond(stream=stream)
        assert (reply.status, reply.body["error"]["message"]) == (422, "no such thing")


# streams


def types(found):
    return [one["type"].removeprefix("response.") for one in found]


def checked(found):
    """Events whose numbers have no gaps, and whose deltas make up the items of the response."""
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    texts, items = {}, []
    for one in found:
        if one["type"].endswith(".delta"):
            place = (one["item_id"], one.get("content_index"))
            texts[place] = texts.get(place, "") + one["delta"]
        elif one["type"] == "response.output_item.done":
            items.append(one["item"])
    response = found[-1]["response"]
    assert sorted(map(json.dumps, items)) == sorted(map(json.dumps, response["output"]))
    assert [item["id"] for item in response["output"]] == [
        one["item"]["id"] for one in found if one["type"] == "response.output_item.added"]
    for item in response["output"]:
        for place, part in enumerate(item.get("content", ())):
            assert texts.get((item["id"], place), "") == part.get("text", part.get("refusal"))
        if "arguments" in item:
            assert texts.get((item["id"], None), "") == item["arguments"]
    assert len({one["response"]["id"] for one in found if "response" in one}) == 1
    return response


MESSAGE = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done",
           "content_part.done", "output_item.done"]


def test_events_come_in_the_protocols_order(server):
    reply = server.respond(stream=True)
    assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert types(reply.events) == ["created", "in_progress", *MESSAGE, "completed"]
    response = checked(reply.events)
    first, added = reply.events[0]["response"], reply.events[2]["item"]
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert (added["status"], added["content"]) == ("in_progress", [])
    assert response["status"] == "completed"
    assert response["minrisk"]["samples"] == 4
    assert response["usage"]["output_tokens"] == 12
    lines = reply.raw.decode().splitlines()
    assert [line[7:] for line in lines if line.startswith("event: ")] == [
        one["type"] for one in reply.events]


def test_reasoning_text_and_calls_are_streamed_item_by_item():
    whole = CALL | THINKING
    with mock_upstream(whole) as own, serving(own.url) as server:
        found = server.respond(stream=True).events
    reasoning = ["output_item.added", "content_part.added", "reasoning_text.delta",
                 "reasoning_text.done", "content_part.done", "output_item.done"]
    call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
            "output_item.done"]
    assert types(found) == ["created", "in_progress", *reasoning, *MESSAGE, *call, "completed"]
    checked(found)


def test_a_truncated_stream_ends_incomplete(server, upstream):
    upstream.finish_reasons = iter(["length"] * 4)
    found = server.respond(stream=True).events
    assert types(found)[-1] == "incomplete"
    assert checked(found)["incomplete_details"] == {"reason": "max_output_tokens"}


def chunk(finish=None, **delta):
    return {"id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calling(index, **function):
    return chunk(tool_calls=[{"index": index, "function": function} | (
        {"id": f"c{index}", "type": "function"} if "name" in function else {})])


USAGE = {"id": "up", "object": "chat.completion.chunk", "choices": [], "usage": {
    "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}


def test_a_stream_that_passes_through_has_each_token(upstream):
    upstream.stream = events(
        chunk(role="assistant", content=""), chunk(reasoning_content="hm"),
        chunk(reasoning_content="m"), chunk(content="the "), chunk(content="cat"),
        calling(0, name="f", arguments=""), calling(1, name="g", arguments='{"b"'),
        calling(0, arguments="{}"), calling(1, arguments=": 1}"), chunk("tool_calls"), USAGE)
    with serving(upstream.url) as server:
        found = server.respond(stream=True, temperature=0).events
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    response = checked(found)
    assert [one["delta"] for one in found if one["type"].endswith(".delta")] == [
        "hm", "m", "the ", "cat", '{"b"', "{}", ": 1}"]
    assert [(item["type"], item.get("arguments")) for item in response["output"]] == [
        ("reasoning", None), ("message", None), ("function_call", "{}"),
        ("function_call", '{"b": 1}')]
    assert response["usage"]["output_tokens"] == 2
    assert response["minrisk"]["passed_through"] is True


@pytest.mark.parametrize("last", [{"error": {"message": "too long", "code": 400}}, "no JSON"])
def test_an_error_in_a_stream_fails_the_response(upstream, last):
    upstream.stream = events(chunk(content="the "), last, step_by_step=True)
    body = {"model": "m", "input": "x", "temperature": 0, "stream": True}
    with serving(upstream.url) as server:
        upstream.step()
        request = Request(f"{server.url}/v1/responses", json.dumps(body).encode(),
                          {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as reply:  # the headers have been sent
            upstream.step()
            found = Reply(200, reply.headers, reply.read()).events
    assert types(found)[:2] == ["created", "in_progress"]
    assert types(found)[-2:] == ["failed", "error"]
    assert found[-2]["response"]["status"] == "failed"
    assert found[-2]["response"]["error"]["message"] == found[-1]["error"]["message"]
    assert [one["sequence_number"] for one in found] == list(range(len(found)))


@pytest.mark.parametrize("delta", [
    {"content": 3}, {"content": ["a", {"text": 1}, {"type": "text", "text": "b"}]},
    {"tool_calls": "f"}, {"tool_calls": ["f", {"function": "g"}, {"index": "a"}]},
    {"tool_calls": [{"index": 0, "function": {"name": 3, "arguments": {"a": 1}}}]},
    {"reasoning": {"a": 1}}, {"refusal": ["x"]}, {"function_call": {"name": "f"}}, {},
    {"annotations": [{"type": ["x"]}, 3], "content": "x"}])
def test_odd_chunks_and_choices_are_no_failure(upstream, delta):
    upstream.stream = events(chunk(**delta), chunk("stop"))
    with serving(upstream.url) as server:
        checked(server.respond(stream=True, temperature=0).events)
    with mock_upstream({"role": "assistant", "content": "x"} | delta) as own, serving(
            own.url) as server:
        assert server.respond().body["status"] == "completed"
        checked(server.respond(stream=True).events)


# the official client


def test_the_official_client(upstream):
    openai = pytest.importorskip("openai")
    with (serving(upstream.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE,
                        max_retries=0) as client):
        found = client.responses.create(model="m", input="x", extra_body={
            "minrisk": {"samples": 3}})
        assert found.output_text == "the cat sat"
        assert found.usage.output_tokens == 9
        assert found.minrisk["samples"] == 3
        with client.responses.stream(model="m", input="x") as stream:
            deltas = [one.delta for one in stream if one.type == "response.output_text.delta"]
            assert "".join(deltas) == stream.get_final_response().output_text == "the cat sat"
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            client.responses.create(model="m", input="x", previous_response_id="resp_1")


def test_the_official_client_parses_json_and_calls(upstream):
    openai = pytest.importorskip("openai")
    from pydantic import BaseModel

    class Fact(BaseModel):
        a: int

    with (mock_upstream('{"a": 1}', '{"a": 2}', '{"a": 2}', '{"a": 2}') as own,
          serving(own.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client):
        assert client.responses.parse(model="m", input="x", text_format=Fact
                                      ).output_parsed == Fact(a=2)
    with (mock_upstream(CALL) as own, serving(own.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client):
        tools = [{"type": "function", "name": "search", "parameters": {"type": "object"},
                  "strict": False}]
        [call] = client.responses.create(model="m", input="x", tools=tools).output
        second = client.responses.create(model="m", tools=tools, input=[
            {"role": "user", "content": "x"}, call.model_dump(),
            {"type": "function_call_output", "call_id": call.call_id, "output": "cats"}])
        assert second.output[0].name == "search"
    assert own.bodies[-1]["messages"][1]["tool_calls"] == CALL["tool_calls"]


def test_the_official_client_raises_the_error_of_a_stream(upstream):
    openai = pytest.importorskip("openai")
    upstream.stream = events(chunk(content="the "), {"error": {"message": "too long", "code": 400}},
                             step_by_step=True)
    with (serving(upstream.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client):
        upstream.step()
        stream = client.responses.create(model="m", input="x", temperature=0, stream=True)
        assert next(stream).type == "response.created"
        upstream.step()
        with pytest.raises(openai.APIError, match="too long"):
            list(stream)
