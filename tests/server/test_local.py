"""A model in the server's own process."""

from __future__ import annotations

import asyncio
import json
from urllib.request import Request, urlopen

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")
pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")

import minrisk
from commands import PATIENCE, wait_for
from mbr_server import serving, settings
from minrisk.io.weighting import Weighting
from minrisk.samplers.hf import Transformers
from minrisk.server.backends import LocalBackend
from tiny_models import save
from warm import spawn_warm

pytestmark = pytest.mark.filterwarnings("ignore:.*samples so far were cut")
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


class Counting(Transformers):
    """A sampler that remembers its batches."""

    @property
    def batches(self) -> list[int]:
        return vars(self).setdefault("_batches", [])

    def with_options(self, **changes):
        changed = super().with_options(**changes)
        vars(changed)["_batches"] = self.batches
        return changed

    def sample(self, prompts, n, seed=0, indices=None):
        self.batches.append(len(prompts))
        return super().sample(prompts, n, seed, indices)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {"chat": save(root / "chat", "llama", TEMPLATE),
            "translation": save(root / "mt", "marian"), "plain": save(root / "plain", "gpt2")}


def local(folder, **options):
    sampler = Counting(folder, **options)
    return sampler, LocalBackend(sampler, "tiny")


@pytest.fixture(scope="module")
def chat(folders):
    sampler, source = local(folders["chat"], max_tokens=8)
    with serving(source, settings(samples=4, model="tiny")) as server:
        server.sampler = sampler
        yield server


def test_a_chat_is_answered_and_its_tokens_are_counted(chat):
    body = chat.chat("the cat sat", model="tiny").body
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["minrisk"]["samples"] == 4
    assert body["usage"]["prompt_tokens"] == 3
    assert 4 <= body["usage"]["completion_tokens"] <= 32
    assert body["usage"]["total_tokens"] == 3 + body["usage"]["completion_tokens"]
    assert body["model"] == "tiny"


def test_the_answer_is_that_of_the_sampler_and_decode(chat, folders):
    reply = chat.chat("the cat sat", model="tiny", seed=7, minrisk={"samples": 16})
    [samples] = Transformers(folders["chat"], max_tokens=8).sample(
        [[{"role": "user", "content": "the cat sat"}]], 16, 0, [7])
    texts = [sample.text for sample in samples if sample.text.strip()
             and sample.finish_reason == "stop"]
    counts = [sample.count for sample in samples if sample.text in texts]
    assert reply.text == minrisk.decode(texts, counts=counts).text


def test_options_of_a_request_are_the_samplers(chat):
    first, second = (chat.chat("the cat", model="tiny", temperature=0).body for _ in range(2))
    assert first["choices"] == second["choices"]
    short = chat.chat("the cat", model="tiny", max_tokens=1).body
    assert short["usage"]["completion_tokens"] == 4
    assert chat.chat("the cat", model="tiny", stop=["sat"], top_p=0.9, top_k=5).status == 200
    assert len(chat.chat("the cat", model="tiny", temperature=0, n=3).body["choices"]) == 3


def test_the_likeliest_text_can_be_streamed(chat):
    whole = chat.chat("the cat", model="tiny", temperature=0).text
    *events, end = chat.chat("the cat", model="tiny", temperature=0, stream=True).events
    assert end is None
    assert "".join(one["choices"][0]["delta"].get("content") or "" for one in events) == whole


@pytest.mark.parametrize("fields", [
    {"tools": [{"type": "function"}]}, {"response_format": {"type": "json_object"}},
    {"top_p": 7}, {"max_tokens": 0}, {"temperature": -1}, {"temperature": "hot"},
    {"logprobs": True}, {"stop": [1]}, {"top_k": "x"},
    *({name: value} for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens")
      for value in ([1], {"a": 1}, True, 10**300))])
def test_what_the_model_cannot_do_is_refused(chat, fields):
    reply = chat.chat("the cat", model="tiny", **fields)
    assert reply.status == 400
    assert reply.body["error"]["message"]
    assert chat.chat("the cat", model="tiny").status == 200


@pytest.mark.parametrize("options", [{"metric": "logprob"}, {"weighting": Weighting("logprobs")}])
def test_the_models_own_log_probabilities_can_choose(folders, options):
    _, source = local(folders["chat"], max_tokens=8)
    with serving(source, settings(samples=4, model="tiny", **options)) as server:
        reply = server.chat("the cat sat", model="tiny")
    assert (reply.status, reply.body["choices"][0]["logprobs"]) == (200, None)


def test_requests_that_come_together_are_one_batch(chat):
    async def main():
        body = {"model": "tiny", "messages": [{"role": "user", "content": "the dog ran"}]}
        async with aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session:
            async def one():
                async with session.post(f"{chat.url}/v1/chat/completions", json=body) as response:
                    return response.status

            return await asyncio.gather(*(one() for _ in range(24)))

    chat.sampler.batches.clear()
    assert set(asyncio.run(main())) == {200}
    assert sum(chat.sampler.batches) == 24
    assert len(chat.sampler.batches) < 24


def test_a_prompt_that_fails_costs_no_other(folders):
    _, source = local(folders["chat"], max_tokens=4)
    with serving(source, settings(samples=2, model="tiny")) as server:
        assert server.call("/v1/chat/completions", {"messages": [{"content": 5}]}).status in (
            200, 400)
        assert server.chat("the cat", model="tiny").status == 200


def test_a_translation_model_answers_chats_and_prompts(folders):
    _, source = local(folders["translation"])
    with serving(source, settings(samples=4, model="tiny")) as server:
        first = server.call("/v1/chat/completions", {"seed": 1, "messages": [
            {"role": "system", "content": "translate"}, {"role": "user", "content": "the cat"}]})
        second = server.call("/v1/completions", {"seed": 1, "prompt": "the cat"})
        assert first.status == second.status == 200
        assert first.text == second.body["choices"][0]["text"]
        assert server.chat("  ", model="tiny").status == 400


def test_a_model_without_a_chat_template_takes_prompts_only(folders):
    _, source = local(folders["plain"], max_tokens=4)
    with serving(source, settings(samples=2, model="tiny")) as server:
        assert server.call("/v1/completions", {"prompt": "the cat"}).status == 200
        assert server.chat("the cat", model="tiny").status == 400


def test_the_command_serves_a_folder_under_its_name(folders, tmp_path):
    process = spawn_warm(tmp_path, "serve", "--port", 0, "--model", folders["chat"], "--samples", 3,
                         "--epsilon", 0.02, "--max-tokens", 4, "--device", "cpu")
    try:
        wait_for(lambda: b"serving at" in said(tmp_path) or not process.is_alive())
        url = next(line.split()[-1] for line in said(tmp_path).decode().splitlines()
                   if "serving at" in line)
        body = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "the cat"}]})
        request = Request(f"{url}/chat/completions", body.encode(),
                          {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as response:
            found = json.load(response)
    finally:
        process.terminate()
        process.join(PATIENCE)
    assert process.exitcode == 0
    assert (found["model"], found["minrisk"]["samples"]) == ("chat", 3)


def said(folder) -> bytes:
    path = folder / "err"
    return path.read_bytes() if path.exists() else b""
