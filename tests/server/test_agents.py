"""OpenAI's agents, in their default mode, against our server."""

from __future__ import annotations

import asyncio
import json

import pytest

agents = pytest.importorskip("agents", reason="needs openai-agents")
openai = pytest.importorskip("openai")
pytest.importorskip("pydantic")
pytest.importorskip("aiohttp")

from aiohttp import web
from pydantic import BaseModel

from commands import PATIENCE
from mbr_server import serving
from upstream import mock_upstream


class Weather(BaseModel):
    city: str
    degrees: int


@agents.function_tool
def temperature(city: str) -> int:
    """The temperature of a city."""
    return len(city)


def run(server, question, stream=False, **options):
    """The final output of an agent, the items on the way, and the types of raw events."""
    async def main():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x",
                                      timeout=PATIENCE) as client:
            agents.set_default_openai_client(client, use_for_tracing=False)
            agents.set_tracing_disabled(True)
            agent = agents.Agent(name="helper", instructions="Help.", model="m", **options)
            if not stream:
                found = await agents.Runner.run(agent, question)
                return found.final_output, found.to_input_list(), []
            streamed = agents.Runner.run_streamed(agent, question)
            types = [one.data.type async for one in streamed.stream_events()
                     if one.type == "raw_response_event"]
            return streamed.final_output, streamed.to_input_list(), types

    return asyncio.run(main())


async def calling(upstream, body):
    """A call of the tool, and after its output a text."""
    found = upstream.completion(body)
    if body["messages"][-1]["role"] != "tool":
        for choice in found["choices"]:
            choice["finish_reason"] = "tool_calls"
            choice["message"] = {
                "role": "assistant", "content": None, "reasoning_content": "I should look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {
                    "name": "temperature", "arguments": '{"city": "Paris"}'}}]}
    return web.json_response(found)


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool_and_answers(stream):
    with mock_upstream("5 degrees", "6 degrees", "5 degrees", "5 degrees") as upstream:
        upstream.answer = calling
        with serving(upstream.url) as server:
            found, items, types = run(server, "How warm is it?", stream, tools=[temperature])
    assert {one["route"] for one in server.requests} == {"/v1/responses"}
    assert found == "5 degrees"
    assert [item.get("type", item.get("role")) for item in items] == [
        "user", "reasoning", "function_call", "function_call_output", "message"]
    assert not stream or types.count("response.completed") == 2
    last = upstream.bodies[-1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "tool"]
    assert last[2]["reasoning_content"] == "I should look."
    assert last[3]["content"] == "5"


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_before_an_upstream_with_responses(stream):
    call = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "temperature",
             "arguments": '{"city": "Paris"}', "status": "completed"}]

    with mock_upstream("5 degrees", "6 degrees", "5 degrees", "5 degrees") as upstream:
        plain, upstream.has_responses = upstream.response, True
        upstream.response = lambda body: plain(body) | (
            {} if body["input"][-1].get("type") == "function_call_output" else {"output": call})
        with serving(upstream.url) as server:
            found, _, types = run(server, "How warm is it?", stream, tools=[temperature])
    assert found == "5 degrees"
    assert not stream or types.count("response.completed") == 2
    kinds = [item.get("type", item.get("role")) for item in upstream.bodies[-1]["input"]]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert upstream.bodies[-1]["input"][1]["encrypted_content"] == "x"


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_gives_objects(stream):
    texts = ['{"city": "Paris", "degrees": 5}', '{"city": "Paris", "degrees": 6}',
             '{"degrees": 5, "city": "Paris"}']
    with mock_upstream(*texts) as upstream, serving(upstream.url) as server:
        found, _, _ = run(server, "How warm is it?", stream, output_type=Weather)
    assert found == Weather(city="Paris", degrees=5)
    form = upstream.bodies[0]["response_format"]
    assert form["type"] == "json_schema"
    assert json.dumps(form["json_schema"]["schema"]).count("degrees") >= 1


def test_a_handoff_between_agents():
    async def answer(upstream, body):
        found = upstream.completion(body)
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        for choice in found["choices"] if names else ():
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": names[0],
                                                              "arguments": "{}"}}]}
        return web.json_response(found)

    with mock_upstream("bonjour") as upstream:
        upstream.answer = answer
        with serving(upstream.url) as server:
            other = agents.Agent(name="french", instructions="French.", model="m")
            found, _, _ = run(server, "Say hello.", handoffs=[other])
    assert found == "bonjour"
