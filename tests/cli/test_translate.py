"""`minrisk translate` and `minrisk answer` as a user types them."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.cli import SOME_FAILED
from openai_server import refusing_prompt
from project import blocks


def test_translate_is_sample_and_decode(sample, translate, sources, tmp_path):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "20", "--prompt", "In French: {source}", "-o", samples)
    options = ["--strategy", "aggregate-to-fine", "--keep", "3", "--metric.word-order", "2"]
    apart = run("decode", samples, *options, "--utilities", "--nbest", "2").records
    result = translate(sources, "-n", "20", *options, "--format", "json", "--utilities",
                       "--nbest", "2")
    assert [record["source"] for record in result.records] == sources.read_text().split()
    assert [{k: v for k, v in r.items() if k != "source"} for r in result.records] == apart
    text = translate(sources, "-n", "20", *options)
    assert text.out.splitlines() == [record["text"] for record in apart]
    assert "sampler:openai|" in text.err
    assert "strategy:aggregate-to-fine|metric:chrf|" in text.err


def test_translate_measures_its_choices_as_decode_does(sample, translate, sources, tmp_path):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "20", "--prompt", "In French: {source}", "--seed", "2", "-o", samples)
    measures = ["--confidence", "--uncertainty", "--weights", "length-normalised", "--matrix"]
    apart = run("decode", samples, "--seed", "2", *measures, tmp_path / "apart.npz").records
    result = translate(sources, "-n", "20", "--seed", "2", "--format", "json", *measures,
                       tmp_path / "whole.npz")
    assert [{k: v for k, v in r.items() if k != "source"} for r in result.records] == apart
    with np.load(tmp_path / "apart.npz") as one, np.load(tmp_path / "whole.npz") as other:
        assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in other.items()}


@pytest.mark.parametrize("option", ["--utilities", "--confidence"])
def test_translate_into_text_has_its_limits(translate, sources, option):
    result = translate(sources, option)
    assert result.code == 2
    assert "need --format json" in result.err


def test_translations_as_text_may_be_the_n_best(translate, sources):
    lines = translate(sources, "-n", "20", "--nbest", "2").out.splitlines()
    records = translate(sources, "-n", "20", "--nbest", "2", "--format", "json").records
    assert lines == [choice["text"] for record in records for choice in record["nbest"]]


def test_a_model_that_writes_on_must_be_told_to_translate(server, sources, tmp_path):
    common = ["--endpoint", server.endpoint, "--model", "m", "-n", "2"]
    result = run("translate", sources, *common)
    assert result.code == 2
    assert "--prompt" in result.err
    prompts = write(tmp_path / "prompts.jsonl", {"source": "one", "prompt": "In French: one"})
    assert run("translate", prompts, *common).code == 0


def test_answer_takes_prompts_as_they_are_and_writes_votes(server, sources, tmp_path):
    common = ["--endpoint", server.endpoint, "--model", "m", "-n", "20"]
    method = ["--metric", "exact-match", "--metric.pattern", r"(\w+)"]
    found = run("answer", sources, *common, *method)
    assert found.code == 0, found.err
    samples = run("sample", sources, *common, "-o", tmp_path / "s.jsonl")
    assert samples.code == 0
    expected = run("decode", tmp_path / "s.jsonl", *method).records
    assert [(r["text"], r["answer"], r["votes"]) for r in found.records] == [
        (r["text"], r["answer"], r["votes"]) for r in expected]


def test_answer_draws_16_samples_unless_told_otherwise(server):
    result = run("answer", "--endpoint", server.endpoint, "--model", "m", stdin=b"one\n")
    assert result.code == 0, result.err
    assert sum(body["n"] for body in server.bodies) == 16
    [found] = minrisk.answer(["one"], model="m", endpoint=server.endpoint)
    assert sum(sample.count for sample in found.samples) == 16


CHAT = [{"role": "user", "content": [{"type": "text", "text": "3 + 4?"},
                                     {"type": "image_url", "image_url": {"url": "data:,x"}}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "add", "arguments": "[3, 4]"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "7"}]


def adding(handler) -> None:
    """Three of four samples have the same answer, each in its own words."""
    handler.reply(200, {"choices": [
        {"index": n, "finish_reason": "stop",
         "message": {"content": f"{n} times: the answer is {8 if n % 4 == 1 else 7}."}}
        for n in range(handler.body["n"])]})


def test_the_pipeline_of_the_page_runs_as_written(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.always = adding
    write(tmp_path / "chats.jsonl", {"id": "sum", "messages": CHAT})
    commands = [line.replace("URL", server.endpoint) for line in
                blocks("docs/guides/utilities.md", "console")[0].splitlines()]
    answered, _, decoded, exported = (
        run(*shlex.split(command.replace("$'\\n\\n'", "'\n\n'").removeprefix("$ minrisk ")))
        for command in commands)
    for found in (answered.records[0], decoded.records[0]):
        assert (found["answer"], found["votes"]) == ("7", {"7": 0.75, "8": 0.25})
    assert answered.records[0]["confidence"]["margin"] == 0.5
    assert server.bodies[0]["messages"] == CHAT
    sent = server.bodies[-1]
    assert sent["messages"] == [{"role": "system", "content": "Think first."}, *CHAT]
    assert (sent["stop"], sent["top_k"]) == (["\n\n"], 50)
    [pair] = exported.records
    assert pair["prompt"] == CHAT
    assert ("is 7" in pair["chosen"][0]["content"], "is 8" in pair["rejected"][0]["content"]) == (
        True, True)


def test_a_translation_that_fails_keeps_its_place(translate, server, sources):
    server.always = refusing_prompt("three")
    result = translate(sources, "-n", "2", "--on-error", "skip")
    assert result.code == SOME_FAILED
    assert [bool(line) for line in result.out.split("\n")[:4]] == [True, True, False, True]
    stopped = translate(sources, "-n", "2", "--on-error", "stop")
    assert stopped.code == 2
    assert stopped.out == "\n".join(result.out.split("\n")[:2]) + "\n"
