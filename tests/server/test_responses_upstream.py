"""`/v1/responses` before an upstream that has it, too: what it gives and keeps stays its own."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from commands import PATIENCE, read
from mbr_server import Reply, serving, settings
from minrisk.io.records import Weighting
from minrisk.openai.encoding import Mask
from minrisk.openai.responses import StreamMask
from upstream import events, failing, mock_upstream

SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]
CALL = [{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "search",
         "arguments": '{"q": "cat"}', "status": "completed"}]


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        found.has_responses = True
        yield found


@pytest.fixture
def server(upstream):
    with serving(upstream.url) as found:
        yield found


def test_samples_are_responses_and_the_best_is_given_unchanged(server, upstream):
    reply = server.respond("What did the cat do?", instructions="Be brief.", store=False,
                           include=["reasoning.encrypted_content"])
    assert reply.output_text == "the cat sat"
    assert len(upstream.bodies) == 4
    for body in upstream.bodies:
        assert body.pop("seed") >= 0
        assert body == {"model": "m", "input": "What did the cat do?", "temperature": 1.0,
                        "instructions": "Be brief.", "store": False,
                        "include": ["reasoning.encrypted_content"]}
    body = reply.body
    assert body["id"].startswith("resp_up")
    reasoning, message = body["output"]
    assert reasoning["encrypted_content"][1:] == message["id"].removeprefix("msg_")
    assert body["usage"] == {
        "input_tokens": 28, "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 40}
    assert body["minrisk"]["samples"] == 4


def test_what_only_the_upstream_knows_is_forwarded(server, upstream):
    fields = {"tools": [{"type": "web_search"}], "truncation": "auto", "unheard_of": {"a": 1},
              "prompt": {"id": "p"}}
    found = [{"type": "item_reference", "id": "msg_9"}, {"role": "user", "content": "x"}]
    assert server.respond(found, **fields).status == 200
    for body in upstream.bodies:
        assert body["input"] == found
        assert fields.items() <= body.items()


def test_a_conversation_goes_on_from_the_chosen_sample(server, upstream):
    first = server.respond("What did the cat do?").body
    second = server.respond("And then?", previous_response_id=first["id"])
    assert second.body["previous_response_id"] == first["id"]
    assert [body["previous_response_id"] for body in upstream.bodies[4:]] == [first["id"]] * 4
    reply = server.respond("And then?", previous_response_id="resp_other")
    assert (reply.status, reply.body["error"]["message"]) == (400, "Previous response not found.")


@pytest.mark.parametrize("field", ["conversation", "background"])
def test_what_does_not_go_with_samples_is_refused(server, upstream, field):
    reply = server.respond(**{field: True})
    assert (reply.status, reply.body["error"]["param"]) == (400, field)
    assert not upstream.bodies


def test_fields_that_the_upstream_refuses_are_dropped(server, upstream):
    async def answer(own, body):
        for name in ("seed", "temperature"):
            if name in body:
                return await failing(400, f"Unknown parameter: '{name}'.")(own, body)
        return await plain(own, body)

    plain, upstream.answer = upstream.answer, answer
    assert server.respond().output_text == "the cat sat"
    assert upstream.bodies[-1].keys() == {"model", "input"}


@pytest.mark.parametrize("asked", [False, True])
def test_log_probabilities_weigh_and_are_shown_only_to_who_asked(upstream, asked):
    more = {"include": ["message.output_text.logprobs"]} if asked else {}
    with serving(upstream.url, settings(weighting=Weighting("logprobs"))) as server:
        body = server.respond(minrisk={"return_candidates": True}, **more).body
    assert upstream.bodies[0]["include"] == ["message.output_text.logprobs"]
    assert "logprobs" in body["minrisk"]["signature"]
    for items in (body["output"], *(one["output"] for one in body["minrisk"]["candidates"])):
        assert bool(items[1]["content"][0]["logprobs"]) == asked


def test_calls_and_json_are_compared_as_such():
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    with mock_upstream(CALL, CALL, "I do not know.") as own:
        own.has_responses = True
        with serving(own.url) as server:
            body = server.respond(tools=[{"type": "function", "name": "search"}]).body
    assert body["output"] == CALL
    with mock_upstream('{"a": 1}', '{ "a": 2}', '{"a": 2.0}', '{"a": 2, "b": 1}') as own:
        own.has_responses = True
        with serving(own.url) as server:
            reply = server.respond(text={"format": form})
    assert json.loads(reply.output_text)["a"] == 2
    assert "json-match" in reply.body["minrisk"]["signature"]


def test_records_have_the_question_and_the_samples(upstream, tmp_path):
    path = tmp_path / "record.jsonl"
    with serving(upstream.url, record=path) as server:
        server.respond("What?", previous_response_id=None, tools=[{"type": "web_search"}])
    [record] = read(path.read_text(encoding="utf-8"))
    assert record["messages"] == [{"role": "user", "content": "What?"}]
    assert record["chosen"] == "the cat sat"


def test_numbers_of_choices_are_the_upstreams_to_refuse(server, upstream):
    for fields in ({}, {"temperature": 0}):
        server.respond(n=2, best_of=3, **fields)
        assert (upstream.bodies[-1]["n"], upstream.bodies[-1]["best_of"]) == (2, 3)


def test_llama_cpp_gets_chats_for_its_route_ignores_formats(server, upstream):
    upstream.owner = "llamacpp"
    schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    assert server.respond(text={"format": schema}).status == 200
    assert upstream.bodies[-1]["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_chats_stay_chats(server, upstream):
    assert server.chat().text == "the cat sat"
    assert "messages" in upstream.bodies[0]


@pytest.mark.parametrize(("status", "is_settled"), [(401, False), (429, False), (502, False),
                                                    (404, True), (405, True), (422, True)])
def test_the_upstream_is_asked_until_its_answer_tells(server, upstream, status, is_settled):
    refuse, upstream.refuse = upstream.refuse, failing(status)
    server.respond()
    assert ("input" in upstream.bodies[-1]) == (status == 422)
    upstream.refuse = refuse
    server.respond()
    assert ("input" in upstream.bodies[-1]) == (status == 422 or not is_settled)


@pytest.mark.parametrize(("status", "code"), [("failed", "server_error"), ("failed", "invalid"),
                                              ("cancelled", None)])
def test_a_failed_response_is_no_sample(server, upstream, status, code):
    plain = upstream.response
    upstream.response = lambda body: plain(body) | {
        "status": status, "output": [], "error": code and {"code": code, "message": "no"}}
    assert server.respond().status == 502


# streams


def streamed(text="the cat", error=None):
    """The events of an upstream, as OpenAI sends them."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress",
            "content": []}
    whole = {"id": "resp_up", "object": "response", "created_at": 1, "model": "up", "output": [],
             "status": "in_progress", "parallel_tool_calls": True, "tool_choice": "auto",
             "tools": [], "usage": None}
    done = item | {"status": "completed", "content": [part | {"text": text}]}
    usage = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 2,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 9}
    last = ([{"type": "response.completed", "response": whole | {
        "status": "completed", "output": [done], "usage": usage}}] if error is None else [error])
    found = [
        {"type": "response.created", "response": whole},
        {"type": "response.in_progress", "response": whole},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
          for piece in (text[:3], text[3:])),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part | {"text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": done}, *last]
    return [one | {"sequence_number": number} for number, one in enumerate(found)]


def test_the_chosen_response_is_streamed_as_events(server):
    found = server.respond(stream=True).events
    [message] = [one["item"] for one in found if one["type"] == "response.output_item.done"
                 and one["item"]["type"] == "message"]
    response = found[-1]["response"]
    assert message == response["output"][1]
    assert {one["response"]["id"] for one in found if "response" in one} == {response["id"]}
    assert response["id"].startswith("resp_up")
    assert [one["sequence_number"] for one in found] == list(range(len(found)))


def test_a_stream_that_passes_through_has_the_upstreams_events(upstream):
    upstream.stream = events(*streamed())
    with serving(upstream.url) as server:
        found = server.respond(stream=True, temperature=0).events
    assert upstream.bodies[0] == {"model": "m", "input": "hello", "stream": True, "temperature": 0}
    assert found[:-1] == streamed()[:-1]
    last = found[-1]["response"]
    assert last.pop("minrisk")["passed_through"] is True
    assert last["output"] == streamed()[-1]["response"]["output"]
    assert last["usage"]["output_tokens"] == 2


@pytest.mark.parametrize("error", [
    {"type": "error", "code": "server_error", "message": "too long", "param": None},
    {"type": "response.failed", "response": {"status": "failed", "error": {
        "code": "server_error", "message": "too long"}}}])
def test_a_stream_that_fails_is_a_failure(upstream, error):
    upstream.stream = events(*streamed(error=error), step_by_step=True)
    body = {"model": "m", "input": "x", "temperature": 0, "stream": True}
    with serving(upstream.url) as server:
        upstream.step()
        request = Request(f"{server.url}/v1/responses", json.dumps(body).encode(),
                          {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as reply:  # the headers have been sent
            for _ in streamed():
                upstream.step()
            found = Reply(200, reply.headers, reply.read()).events
    assert [one["type"] for one in found[-2:]] == ["response.failed", "error"]
    assert [one["sequence_number"] for one in found] == list(range(len(found)))


def test_a_key_in_a_stream_of_events_is_masked():
    key = "a-secret-key-of-the-server"
    mask = StreamMask(Mask(key))
    found = [one for event in streamed(f"{key[:3]}{key[3:]} a-sec") for one in mask.masked(event)]
    deltas = [one["delta"] for one in found if "delta" in one]
    assert "".join(deltas) == "*** a-sec"
    place = max(number for number, one in enumerate(found) if "delta" in one)
    assert found[place + 1]["type"] == "response.output_text.done"


# clients


def test_events_are_those_of_the_official_client(upstream):
    """Of all streams: of samples and of one, by either protocol of the upstream."""
    pytest.importorskip("openai")
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    known = TypeAdapter(ResponseStreamEvent)
    kinds = set()
    with mock_upstream(CALL, "text") as own:
        own.has_responses = True
        with serving(own.url) as server:
            found = server.respond(stream=True, minrisk={"samples": 1}).events
            found += server.respond(stream=True).events
            own.has_responses = False
    chat = {"role": "assistant", "content": "4", "refusal": None, "reasoning_content": "2 + 2",
            "tool_calls": [{"id": "c1", "type": "function",
                            "function": {"name": "f", "arguments": "{}"}}]}
    with mock_upstream(chat, {"role": "assistant", "content": None, "refusal": "No."}) as own, (
            serving(own.url)) as server:
        found += server.respond(stream=True, minrisk={"samples": 1}).events
        found += server.respond(stream=True).events
    for one in found:
        event = known.validate_python(one)
        assert type(event).__name__ != "BaseModel"
        assert event.type == one["type"]
        kinds.add(event.type)
    assert len(kinds) >= 12


def test_the_official_client_continues_a_conversation(server):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE) as client:
        first = client.responses.create(model="m", input="What did the cat do?")
        second = client.responses.create(model="m", input="And?", previous_response_id=first.id)
        assert (second.previous_response_id, second.output_text) == (first.id, "the cat sat")
        with client.responses.stream(model="m", input="x", previous_response_id=first.id) as stream:
            assert stream.get_final_response().output_text == "the cat sat"
