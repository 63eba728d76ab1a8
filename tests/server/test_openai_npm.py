"""OpenAI's JavaScript client against our server, once."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from aiohttp import web

from commands import PATIENCE
from mbr_server import serving, settings
from minrisk.server.http import Keys
from upstream import failing, mock_upstream

NODE = shutil.which("node")
SCRIPT = """
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1], apiKey: 'a-client-key', maxRetries: 0});
const messages = [{role: 'user', content: 'What did the cat do?'}];

async function main() {
  const found = {};
  const answer = await client.chat.completions.create({model: 'm', messages, n: 2});
  found.texts = answer.choices.map((choice) => choice.message.content);
  found.samples = answer.minrisk.samples;
  found.tokens = answer.usage.completion_tokens;
  found.streamed = '';
  const stream = await client.chat.completions.create({
    model: 'm', messages, stream: true, stream_options: {include_usage: true}});
  for await (const chunk of stream) {
    found.streamed += chunk.choices[0]?.delta?.content ?? '';
    found.streamedTokens = chunk.usage?.completion_tokens;
  }
  found.completion = (await client.completions.create({model: 'm', prompt: 'x'})).choices[0].text;
  found.models = (await client.models.list()).data.map((model) => model.id);
  const error = await client.chat.completions.create(
    {model: 'm', messages, minrisk: {metric: 'comet'}}).catch((error) => error);
  found.error = [error.constructor.name, error.status, error.type];
  const final = await client.chat.completions.stream({model: 'm', messages}).finalChatCompletion();
  found.helper = final.choices[0].message.content;
  return found;
}

main().then((found) => console.log(JSON.stringify(found)));
"""
RESPONSES = """
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1], apiKey: 'a-client-key', maxRetries: 0});
const tools = [{type: 'function', name: 'search', parameters: {type: 'object'}, strict: false}];

async function main() {
  const found = {};
  const answer = await client.responses.create({model: 'm', input: 'What?', minrisk: {samples: 3}});
  found.text = answer.output_text;
  found.samples = answer.minrisk.samples;
  found.tokens = answer.usage.output_tokens;
  found.events = [];
  for await (const event of await client.responses.create(
    {model: 'm', input: 'What?', stream: true})) found.events.push(event.type);
  const stream = client.responses.stream({model: 'm', input: 'What?'});
  found.helper = (await stream.finalResponse()).output_text;
  const error = await client.responses.create(
    {model: 'm', input: 'x', previous_response_id: 'resp_1'}).catch((error) => error);
  found.error = [error.constructor.name, error.status, error.param];
  const input = [{role: 'user', content: 'Search.'}];
  const called = await client.responses.create({model: 'm', input, tools});
  const call = called.output.find((item) => item.type === 'function_call');
  found.call = [call.name, JSON.parse(call.arguments)];
  const last = await client.responses.create({model: 'm', tools, input: [
    ...input, ...called.output,
    {type: 'function_call_output', call_id: call.call_id, output: 'cats'}]});
  found.last = last.output_text;
  return found;
}

main().then((found) => console.log(JSON.stringify(found)));
"""


def node(*args: str) -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    return subprocess.run([NODE, *args], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)


@pytest.fixture(scope="module", autouse=True)
def _needs_the_package():
    if NODE is None:
        pytest.skip("needs node")
    if node("-e", "require.resolve('openai')").returncode:
        pytest.skip("needs OpenAI's package: npm install openai in any folder, and the folder's "
                    "node_modules as NODE_PATH")


def test_the_javascript_client_gets_answers_streams_and_errors():
    with (mock_upstream("the cat sat", "a cat sat down", "the cat sat", "dogs") as upstream,
          serving(upstream.url, settings(keys=Keys(["a-client-key"]))) as server):
        done = node("-e", SCRIPT, f"{server.url}/v1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "texts": ["the cat sat", found["texts"][1]], "samples": 4, "tokens": 12,
        "streamed": "the cat sat", "streamedTokens": 12, "completion": "the cat sat",
        "models": ["m"], "error": ["BadRequestError", 400, "invalid_request_error"],
        "helper": "the cat sat"}


def test_the_javascript_client_does_not_try_again_what_we_have_tried():
    script = SCRIPT.replace(", maxRetries: 0", "").replace("n: 2", "n: 1")
    with mock_upstream("x") as upstream, serving(
            upstream.url, settings(keys=Keys(["a-client-key"]))) as server:
        upstream.answer = failing(500)
        assert node("-e", script, f"{server.url}/v1").returncode != 0
    assert len(upstream.bodies) == 1


def test_the_javascript_client_gets_responses_of_an_upstream_that_keeps_them():
    script = """
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1], apiKey: 'a-client-key', maxRetries: 0});
async function main() {
  const first = await client.responses.create({model: 'm', input: 'What?'});
  const next = {model: 'm', input: 'And?', previous_response_id: first.id};
  const stream = client.responses.stream(next);
  const last = await stream.finalResponse();
  return [first.output_text, last.output_text, last.previous_response_id === first.id];
}
main().then((found) => console.log(JSON.stringify(found)));
"""
    with mock_upstream("the cat sat") as upstream, serving(
            upstream.url, settings(keys=Keys(["a-client-key"]))) as server:
        upstream.has_responses = True
        done = node("-e", script, f"{server.url}/v1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["the cat sat", "the cat sat", True]


def test_the_javascript_client_gets_responses_events_and_calls():
    async def answer(upstream, body):
        """A call where there is a tool that has not been called, else a text."""
        if "tools" in body and body["messages"][-1]["role"] != "tool":
            body = upstream.completion(body)
            for choice in body["choices"]:
                choice["message"] = {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "search", "arguments": '{"q": "cat"}'}}]}
            return web.json_response(body)
        return web.json_response(upstream.completion(body))

    with (mock_upstream("the cat sat") as upstream,
          serving(upstream.url, settings(keys=Keys(["a-client-key"]))) as server):
        upstream.answer = answer
        done = node("-e", RESPONSES, f"{server.url}/v1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("events")[::8] == ["response.created", "response.completed"]
    assert found == {
        "text": "the cat sat", "samples": 3, "tokens": 9, "helper": "the cat sat",
        "error": ["BadRequestError", 400, "previous_response_id"],
        "call": ["search", {"q": "cat"}], "last": "the cat sat"}
