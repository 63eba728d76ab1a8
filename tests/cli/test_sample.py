"""`minrisk sample` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

import openai_server
from commands import read, run, write
from minrisk.cli import SOME_FAILED
from minrisk.run import progress
from openai_server import refusing_prompt
from tolerance import assert_close


def test_plain_text_becomes_samples_with_counts(sample, sources):
    result = sample(sources, "-n", "20")
    assert result.code == 0
    assert [record["source"] for record in result.records] == sources.read_text().split()
    for index, record in enumerate(result.records):
        assert list(record) == ["id", "source", "samples", "counts", "logprobs", "lengths",
                                "lowest_logprobs", "tail_logprobs"]
        assert record["id"] == index
        assert sum(record["counts"]) == 20
        assert len(set(record["samples"])) == len(record["samples"]) == len(record["logprobs"])


def test_repeated_samples_are_those_of_the_counts(sample, sources):
    counted, repeated = sample(sources, "-n", "20"), sample(sources, "-n", "20", "--repeat")
    for one, other in zip(counted.records, repeated.records, strict=True):
        assert "counts" not in other
        assert len(other["samples"]) == len(other["logprobs"]) == 20
        assert {text: other["samples"].count(text) for text in other["samples"]} == dict(
            zip(one["samples"], one["counts"], strict=True))


def test_samples_as_text_are_the_lines_that_decode_reads(sample, sources, tmp_path):
    texts, records = tmp_path / "hyps.txt", tmp_path / "samples.jsonl"
    assert sample(sources, "-n", "20", "--format", "text", "-o", texts).code == 0
    assert sample(sources, "-n", "20", "--repeat", "-o", records).code == 0
    assert texts.read_text().splitlines() == [
        text for record in read(records.read_text()) for text in record["samples"]]
    best = [[line["text"] for line in run("decode", *args).records]
            for args in ((texts, "-n", "20"), (records,))]
    assert best[0] == best[1]


def test_a_prompt_that_fails_keeps_its_lines_of_text(server, sample, sources):
    server.always = refusing_prompt("three")
    result = sample(sources, "-n", "3", "--format", "text")
    lines = result.out.splitlines()
    assert result.code == SOME_FAILED
    assert (len(lines), lines[6:9]) == (12, ["", "", ""])
    assert all(lines[:6] + lines[9:])


def test_fewer_samples_than_lines_are_no_plain_text(server, sample, tmp_path):
    path = write(tmp_path / "prompts.jsonl", {"prompt": "one"})
    server.always = openai_server.altered({}, {"finish_reason": "length"})
    result = sample(path, "-n", "4", "--format", "text", "--drop-truncated")
    assert "prompts.jsonl:1: found 2 samples" in result.err


def test_text_has_no_place_for_references(sample, sources):
    result = sample(sources, "--format", "text", "--reference-samples", "4")
    assert result.code == 2
    assert "--format json" in result.err


@pytest.mark.parametrize("strategy", ["standard", "aggregate"])
@pytest.mark.parametrize("weights", ["auto", "uniform", "logprobs"])
def test_decode_takes_counts_for_repetitions(sample, sources, tmp_path, strategy, weights):
    files = {form: tmp_path / f"{form}.jsonl" for form in ("--no-repeat", "--repeat")}
    for form, path in files.items():
        assert sample(sources, "-n", "20", form, "-o", path).code == 0
    best = {form: run("decode", path, "--strategy", strategy, "--weights", weights).records
            for form, path in files.items()}
    for one, other in zip(*best.values(), strict=True):
        assert one["text"] == other["text"]
        assert_close(one["utility"], other["utility"])


def test_json_lines_keep_their_ids_and_other_fields(sample, server, tmp_path):
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]
    path = write(tmp_path / "prompts.jsonl", {"id": "a", "source": "one", "lang": "fr"}, "",
                 {"prompt": "two", "source": "deux"}, {"id": 7, "messages": chat, "samples": ["x"]})
    first, second, third = sample(path, "-n", "3", "--concurrency", "1").records
    assert (first["id"], first["source"], first["lang"]) == ("a", "one", "fr")
    assert (second["id"], second["prompt"], second["source"]) == (1, "two", "deux")
    assert (third["id"], third["messages"]) == (7, chat)
    assert third["samples"][0].startswith("llo ")
    sent = [body["messages"] for body in server.bodies]
    assert sent[1:] == [[{"role": "user", "content": "two"}], chat]


def test_what_begins_with_a_brace_is_json_unless_told(sample):
    line = b'{"source": "one"}\n'
    assert sample("-n", "1", stdin=line).records[0]["source"] == "one"
    told = sample("-n", "1", "--input-format", "text", stdin=line)
    assert told.records[0]["source"] == line.decode().strip()
    assert sample("-n", "1", stdin=b"plain\n").records[0]["source"] == "plain"
    assert sample("-n", "1", stdin=b"").records == []


def test_a_seed_gives_the_same_file_and_another_another(sample, sources, tmp_path):
    files = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(files, (5, 5, 6), strict=True):
        assert sample(sources, "-n", "9", "--seed", seed, "--batch-size", "2", "-o", path).code == 0
    first, second, third = (path.read_bytes() for path in files)
    assert first == second != third


@pytest.mark.parametrize("command", ["sample", "translate", "answer"])
def test_a_server_that_ignores_the_temperature_is_told_once(server, sources, command):
    server.always = openai_server.altered({"message": {"content": "always the same"}})
    options = ["--endpoint", server.endpoint, "--model", "m", "--prompt", "{source}", "-n", "4"]
    result = run(command, sources, *options)
    assert result.code == 0
    assert result.err.count("all samples of a prompt are equal") == 1
    assert "or raise --temperature" in result.err
    both = run(command, sources, *options, "--reference-samples", "9")
    assert both.err.count("all samples of a prompt are equal") == 1
    assert "are equal" not in run(command, sources, *options, "--temperature", "0").err


def test_progress_tells_samples_per_second(sample, sources, monkeypatch):
    monkeypatch.setattr(progress, "_PLAIN", 0.0)
    err = sample(sources, "-n", "20", "--batch-size", "1").err
    assert "samples/s" in err.splitlines()[-1]
    assert "minrisk: 1 of 4 segments (25%), " in err


def test_the_signature_has_what_matters_and_no_key(sample, sources, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    result = sample(sources, "-n", "2", "--concurrency", "3", "-o", tmp_path / "out.jsonl")
    assert "model:m|" in result.err
    assert "|n:2|" in result.err
    assert "concurrency" not in result.err
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert all("sk-secret" not in text for text in [*written, result.err])


def test_a_configuration_file_says_the_same_as_flags(server, sources, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(f"input: [{sources}]\nnum_samples: 5\nsampler:\n  name: openai\n"
                      f"  endpoint: {server.endpoint}\n  model: m\n  temperature: 0.5\n")
    assert run("sample", "--config", config).records == run(
        "sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "5",
        "--temperature", "0.5").records


def test_samplers_are_listed():
    listed = run("list", "samplers").out
    assert "--endpoint text  " in listed
    assert [entry["name"] for entry in run("list", "samplers", "--json").records] == [
        "hf", "openai", "ct2"]


@pytest.mark.parametrize("command", ["sample", "translate"])
def test_help_lists_the_samplers_and_their_options(command):
    text = run(command, "--sampler", "openai", "--help").out
    assert "--endpoint URL" in text
    assert "[required]" in text
    assert "--top-k" in text
    assert ("--metric.word-order" in text) == (command == "translate")


@pytest.mark.parametrize(("args", "message"), [
    (["--epsilon", "0.02"], "sampler hf"),
    (["--temprature", "1"], "'--temperature'?"),
    (["--top-p", "2"], "--top-p must"),
    (["--sampler", "nobody"], "'nobody'"),
    (["--resume"], "--output"),
    (["--system", "s", "--api", "completions"], "system"),
    (["--references.temperature", "1"], "--reference-samples M"),
    (["--reference-samples", "4", "--references.top-p", "2"], "--references.top-p must"),
    (["--reference-samples", "4", "--references.temprature", "2"],
     "'--references.temperature'?"),
])
def test_options_that_make_no_sense_are_told(sample, sources, args, message):
    result = sample(sources, *args)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_an_option_that_is_needed_is_asked_for(server, sources):
    result = run("sample", sources, "--endpoint", server.endpoint)
    assert result.code == 2
    assert "sampler 'openai' needs --model TEXT: " in result.err


def test_a_blank_source_gives_blank_samples_and_a_blank_line(sample, translate, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"one\n\n \t\nfour\n")
    first, blank, spaces, last = sample(path, "-n", "2").records
    assert (first["source"], last["source"]) == ("one", "four")
    assert [(r["samples"], r["counts"]) for r in (blank, spaces)] == [([""], [2])] * 2
    lines = translate(path, "-n", "2").out.split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]
    saved = tmp_path / "samples.jsonl"
    assert sample(path, "-n", "2", "-o", saved).code == 0
    assert run("decode", saved, "--format", "text").out.split("\n")[1:3] == ["", ""]


def test_a_blank_source_fails_where_that_is_asked_for(sample, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"one\n\nthree\n")
    result = sample(path, "-n", "2", "--on-blank", "fail")
    assert result.code == SOME_FAILED
    assert "blank" in result.records[1]["error"]


def test_chats_need_a_sampler_that_takes_them(tmp_path):
    path = write(tmp_path / "in.jsonl", {"messages": [{"role": "user", "content": "hi"}]})
    result = run("sample", path, "--sampler", "ct2", "--model", "nowhere")
    assert result.code == 2
    assert "in.jsonl:1: found messages" in result.err


def test_an_output_that_is_an_input_is_refused(sample, sources):
    result = sample(sources, "-o", sources)
    assert result.code == 2
    assert "output is the input" in result.err


def test_devices_have_no_file_beside_them(sample, sources):
    assert sample(sources, "-n", "1", "-o", "/dev/null").code == 0
    assert not Path("/dev/null.run.json").exists()
