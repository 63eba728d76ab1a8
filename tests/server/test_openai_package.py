"""The official client of OpenAI against our server."""

from __future__ import annotations

import asyncio
import json

import pytest

openai = pytest.importorskip("openai")

from commands import PATIENCE
from mbr_server import serving, settings
from minrisk.server.http import Keys
from upstream import failing, held, mock_upstream

KEY = "a-client-key"
SAMPLES = ["the cat sat", "a cat sat down", "the cat sat", "dogs"]
MESSAGES = [{"role": "user", "content": "What did the cat do?"}]
CHAT = {"model": "m", "messages": MESSAGES}
TOOL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "search",
                                                  "arguments": '{"q": "cat"}'}}]}


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


@pytest.fixture
def server(upstream):
    with serving(upstream.url, settings(keys=Keys([KEY]))) as found:
        yield found


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, timeout=PATIENCE) as found:
        yield found


def asynchronously(server, work):
    async def main():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY,
                                      timeout=PATIENCE) as client:
            return await work(client)

    return asyncio.run(main())


def test_a_chat(client):
    answer = client.chat.completions.create(**CHAT, n=2)
    assert answer.choices[0].message.content == "the cat sat"
    assert len(answer.choices) == 2
    assert answer.usage.completion_tokens == 12
    assert answer.minrisk["samples"] == 4


def test_a_plain_completion(client):
    assert client.completions.create(model="m", prompt="the").choices[0].text == "the cat sat"


def test_streams(client):
    events = list(client.chat.completions.create(**CHAT, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
    assert text == "the cat sat"
    assert events[-1].usage.completion_tokens == 12
    [event] = client.completions.create(model="m", prompt="the", stream=True)
    assert event.choices[0].text == "the cat sat"


def test_the_helper_for_streams_puts_tool_calls_together():
    with (mock_upstream(TOOL) as own, serving(own.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client,
          client.chat.completions.stream(**CHAT) as stream):
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "search"
    assert json.loads(message.tool_calls[0].function.arguments) == {"q": "cat"}


def test_extra_fields_are_how_samples_are_chosen(client):
    answer = client.chat.completions.create(**CHAT, extra_body={"minrisk": {"samples": 7}})
    assert answer.minrisk["samples"] == 7


def test_tools_and_json(client):
    with (mock_upstream(TOOL, '{"a": 1}') as own, serving(own.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client):
        answer = client.chat.completions.create(**CHAT, extra_body={"minrisk": {"samples": 3}})
        assert answer.choices[0].message.tool_calls[0].function.name == "search"
        assert answer.choices[0].finish_reason == "stop"
    with (mock_upstream('{"a": 1}', '{"a": 1.0}', "{}") as own, serving(own.url) as server,
          openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client):
        answer = client.chat.completions.create(**CHAT, response_format={"type": "json_object"})
        assert json.loads(answer.choices[0].message.content) == {"a": 1}


def test_models(client):
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").id == "m"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_errors_have_the_classes_that_they_should(client, upstream, server):
    with pytest.raises(openai.BadRequestError, match="it offers: none"):
        client.chat.completions.create(**CHAT, extra_body={"minrisk": {"metric": "comet"}})
    upstream.answer = failing(422, "no such thing")
    with pytest.raises(openai.UnprocessableEntityError, match="no such thing"):
        client.chat.completions.create(**CHAT)
    with (openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong") as other,
          pytest.raises(openai.AuthenticationError)):
        other.models.list()


def test_the_client_does_not_try_again_what_we_have_tried(client, upstream):
    upstream.answer = failing(500)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(**CHAT)
    assert len(upstream.bodies) == 1


def test_a_client_whose_time_is_over_frees_the_upstream(server, upstream):
    upstream.answer = held
    with (openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, timeout=1,
                        max_retries=0) as client, pytest.raises(openai.APITimeoutError)):
        client.chat.completions.create(**CHAT)
    assert upstream.left.acquire(timeout=PATIENCE)


def test_asynchronous_chats_and_streams(server):
    async def work(client):
        answers = await asyncio.gather(*(client.chat.completions.create(**CHAT)
                                         for _ in range(20)))
        stream = await client.chat.completions.create(**CHAT, stream=True)
        texts = [event.choices[0].delta.content or "" async for event in stream]
        return {answer.choices[0].message.content for answer in answers}, "".join(texts)

    answers, text = asynchronously(server, work)
    assert answers <= set(SAMPLES)
    assert text == "the cat sat"


def test_an_asynchronous_client_that_cancels_frees_the_upstream(server, upstream):
    upstream.answer = held

    async def work(client):
        task = asyncio.create_task(client.chat.completions.create(**CHAT))
        await asyncio.to_thread(upstream.arrived.acquire, timeout=PATIENCE)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asynchronously(server, work)
    assert upstream.left.acquire(timeout=PATIENCE)
    assert upstream.open == 0
