"""`minrisk.sample`, `translate` and `answer`: the results of the command line, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import minrisk
from commands import run
from minrisk.plugins import Sample
from openai_server import refusing_prompt

SOURCES = ["one", "two", "three", "four"]


def sampler(server: Any) -> minrisk.Endpoint:
    return minrisk.Endpoint("m", server.endpoint, prompt="In French: {source}")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("".join(f"{source}\n" for source in SOURCES))
    return path


def test_samples_are_those_of_the_command_line(server, sources, tmp_path):
    flags = ["--endpoint", server.endpoint, "--model", "m", "-n", "9", "--seed", "3"]
    expected = run("sample", sources, *flags, "-o", tmp_path / "cli.jsonl")
    assert expected.code == 0
    common: Any = {"endpoint": server.endpoint, "model": "m", "seed": 3}
    summary = minrisk.sample(sources, 9, output=tmp_path / "api.jsonl", **common)
    assert (tmp_path / "api.jsonl").read_bytes() == (tmp_path / "cli.jsonl").read_bytes()
    assert (summary.segments, summary.counts["samples"]) == (4, 36)
    records = [json.loads(line) for line in (tmp_path / "cli.jsonl").read_text().splitlines()]
    for prompts in (sources, SOURCES, [{"source": source} for source in SOURCES]):
        found = list(minrisk.sample(prompts, 9, **common))
        assert [set(result.texts) for result in found] == [set(r["samples"]) for r in records]
        assert all(sum(s.count for s in result.samples) == 9 for result in found)


def test_translations_are_those_of_the_command_line(server, sources, tmp_path):
    flags = ["--endpoint", server.endpoint, "--model", "m", "--prompt", "In French: {source}",
             "-n", "9", "--strategy", "n-by-s", "--subset", "3", "--seed", "2"]
    for form in ("text", "json"):
        run("translate", sources, *flags, "--format", form, "-o", tmp_path / f"cli.{form}")
        minrisk.translate(sources, 9, sampler=sampler(server), strategy="n-by-s", subset=3, seed=2,
                          output=tmp_path / f"api.{form}", format=form)
        assert (tmp_path / f"api.{form}").read_bytes() == (tmp_path / f"cli.{form}").read_bytes()
    manifests = [json.loads((tmp_path / f"{name}.json.run.json").read_text())
                 for name in ("cli", "api")]
    assert manifests[0]["settings"] == manifests[1]["settings"]
    found = minrisk.translate(SOURCES, 9, sampler="openai", endpoint=server.endpoint, model="m",
                              prompt="In French: {source}", strategy="n-by-s", subset=3, seed=2)
    assert [r.text for r in found] == (tmp_path / "cli.text").read_text().splitlines()


def test_separate_references_are_those_of_the_command_line(server, sources, tmp_path):
    flags = ["--endpoint", server.endpoint, "--model", "m", "--prompt", "In French: {source}",
             "-n", "5", "--reference-samples", "9", "--references.temperature", "0.25"]
    options: Any = {"reference_samples": 9, "reference_options": {"temperature": 0.25}}
    calls: Any = {"sample": minrisk.sample, "translate": minrisk.translate,
                  "answer": minrisk.answer}
    for name, call in calls.items():
        run(name, sources, *flags, "-o", tmp_path / f"cli.{name}")
        summary = call(sources, 5, sampler=sampler(server), output=tmp_path / f"api.{name}",
                       **options)
        assert (tmp_path / f"api.{name}").read_bytes() == (tmp_path / f"cli.{name}").read_bytes()
        assert summary.counts["samples"] == 4 * (5 + 9)
        manifests = [json.loads((tmp_path / f"{side}.{name}.run.json").read_text())
                     for side in ("cli", "api")]
        assert manifests[0]["settings"] == manifests[1]["settings"]
        for result in call(SOURCES, 5, sampler=sampler(server), **options):
            assert sum(s.count for s in result.samples) == 5
            assert sum(s.count for s in result.reference_samples) == 9


@pytest.mark.parametrize("call", [minrisk.sample, minrisk.translate, minrisk.answer])
def test_results_tell_the_tokens_of_all_their_samples(server, call):
    [before] = call(["one"], 4, sampler=sampler(server))
    assert before.usage is None
    server.usage = True
    [alone] = call(["one"], 4, sampler=sampler(server))
    assert alone.usage == {"prompt_tokens": 5, "completion_tokens": 12}
    [both] = call(["one"], 4, sampler=sampler(server), reference_samples=8)
    assert both.usage == {"prompt_tokens": 10, "completion_tokens": 36}
    [decoded] = minrisk.decode_corpus([both.texts if call is minrisk.sample else ["a", "b"]])
    assert decoded.usage is None


def test_samples_can_be_written_as_plain_text(server, tmp_path):
    path = tmp_path / "hyps.txt"
    minrisk.sample(SOURCES, 4, sampler=sampler(server), output=path, format="text")
    [first, *_] = minrisk.sample(SOURCES, 4, sampler=sampler(server))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4 * len(SOURCES)
    assert set(lines[:4]) == set(first.texts)
    with pytest.raises(minrisk.InputError, match="output="):
        minrisk.sample(SOURCES, 4, sampler=sampler(server), format="text")


def test_a_sampler_without_options_can_draw_references_too():
    class Parrot:
        name = "parrot"

        def sample(self, prompts, n, seed=0, indices=None):
            return [[Sample(f"{prompt} {seed}", n)] for prompt in prompts]

    [found] = minrisk.sample(["Hello"], 4, sampler=Parrot(), reference_samples=2)
    assert [s.count for s in found.reference_samples] == [2]
    assert found.reference_samples[0].text != found.texts[0] == "Hello 0"
    with pytest.raises(minrisk.InputError, match="'parrot'"):
        minrisk.sample(["Hello"], 4, sampler=Parrot(), reference_samples=2,
                       reference_options={"temperature": 1})


def test_a_prompt_that_fails_keeps_its_place(server):
    server.always = refusing_prompt("three")
    found = list(minrisk.sample(SOURCES, 2, sampler=sampler(server)))
    assert [r.error is None for r in found] == [True, True, False, True]
    with pytest.raises(minrisk.InputError, match=r"segment 2: .*not with me"):
        found[2].texts  # noqa: B018
    assert (*found[2].samples, found[2].usage) == (None,)


def test_chats_are_prompts_too(server):
    chat = [{"role": "user", "content": "one"}]
    found = minrisk.sample([chat, {"messages": chat, "id": "x"}], 2, endpoint=server.endpoint,
                           model="m")
    assert [result.id for result in found] == [0, "x"]
    assert all(body["messages"] == chat for body in server.bodies)


@pytest.mark.parametrize(("args", "options", "message"), [
    (("one", 4), {}, "prompts .*Path"),
    ((5, 4), {}, "prompts .*Path"),
    ((Path("nowhere.txt"), 4), {}, "nowhere.txt"),
    ((["one"], 0), {}, "n must .* 0"),
    ((["one"], 4), {"sampler": "hff"}, "'hff'; .* 'hf'"),
    ((["one"], 4), {"sampler": 3}, "sampler .* 3"),
    ((["one"], 4), {"epsilan": 0.1}, "'epsilan'; .* 'epsilon'"),
    ((["one"], 4), {"sampler": "hf"}, "model"),
    ((["one"], 4), {"sampler": minrisk.CTranslate2("m"), "top_k": 2}, "top_k"),
    ((["one"], 4), {"on_blank": "ignore"}, "on_blank"),
    ((["one"], 4), {"reference_samples": 0}, "reference_samples"),
    ((["one"], 4), {"reference_options": {"top_k": 1}}, "reference_samples="),
    ((["one"], 4), {"reference_samples": 2, "reference_options": {"topk": 1}},
     "'topk'; .* 'top_k'"),
])
@pytest.mark.parametrize("call", [minrisk.sample, minrisk.translate], ids=["sample", "translate"])
def test_wrong_arguments_of_sampling_get_our_errors(call, args, options, message):
    needed = {} if {"sampler"} & options.keys() else {"model": "m"}
    with pytest.raises(minrisk.InputError, match=message):
        call(*args, **needed | options)
