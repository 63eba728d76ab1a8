"""`minrisk sample` and `minrisk translate` as a user types them."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import numpy as np
import pytest

import minrisk
import openai_server
from commands import read, run, spawn, wait_for, write
from minrisk.cli.execute import SOME_FAILED
from minrisk.io.journal import Journal
from minrisk.pipeline import progress
from openai_server import Faulty, status
from project import blocks
from tolerance import assert_close

SOURCES = ["one", "two", "three", "four"]


@pytest.fixture
def sources(tmp_path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("".join(f"{source}\n" for source in SOURCES))
    return path


@pytest.fixture
def sample(server):
    """`minrisk sample` from the server."""
    return lambda *args, **options: run("sample", "--endpoint", server.endpoint, "--model", "m",
                                        *args, **options)


@pytest.fixture
def translate(server):
    return lambda *args, **options: run("translate", "--endpoint", server.endpoint, "--model", "m",
                                        "--prompt", "In French: {source}", *args, **options)


def picky(handler) -> None:
    """Does not like the third source."""
    bad = handler.body["messages"][-1]["content"].endswith("three")
    (status(400, "not with me") if bad else openai_server.answer)(handler)


def test_plain_text_becomes_samples_with_counts(sample, sources):
    result = sample(sources, "-n", "20")
    assert result.code == 0
    assert [record["source"] for record in result.records] == SOURCES
    for index, record in enumerate(result.records):
        assert list(record) == ["id", "source", "samples", "counts", "logprobs", "lengths"]
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
    server.always = picky
    result = sample(sources, "-n", "3", "--format", "text")
    lines = result.out.splitlines()
    assert result.code == SOME_FAILED
    assert (len(lines), lines[6:9]) == (12, ["", "", ""])
    assert all(lines[:6] + lines[9:])


def test_fewer_samples_than_lines_are_no_plain_text(server, sample, tmp_path):
    path = write(tmp_path / "prompts.jsonl", {"prompt": "one"})
    server.always = openai_server.altered({}, {"finish_reason": "length"})
    result = sample(path, "-n", "4", "--format", "text", "--drop-truncated")
    assert "prompts.jsonl:1: found 2 samples; plain text has 4 lines for every prompt" in result.err


def test_text_has_no_place_for_references(sample, sources):
    result = sample(sources, "--format", "text", "--reference-samples", "4")
    assert result.code == 2
    assert "--reference-samples needs --format json" in result.err


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


def test_translate_is_sample_and_decode(sample, translate, sources, tmp_path):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "20", "--prompt", "In French: {source}", "-o", samples)
    options = ["--strategy", "aggregate-to-fine", "--keep", "3", "--metric.word-order", "2"]
    apart = run("decode", samples, *options, "--utilities", "--nbest", "2").records
    result = translate(sources, "-n", "20", *options, "--format", "json", "--utilities",
                       "--nbest", "2")
    assert [record["source"] for record in result.records] == SOURCES
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


REFERENCES = ["--reference-samples", "12", "--references.temperature", "0.25"]


@pytest.mark.parametrize("weights", ["uniform", "logprobs", "length-normalised"])
def test_translate_with_separate_references_is_sample_and_decode(
        sample, translate, sources, tmp_path, weights):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "5", "--prompt", "In French: {source}", *REFERENCES, "-o", samples)
    for record in read(samples.read_text()):
        assert list(record) == ["id", "source", "samples", "counts", "sample_logprobs",
                                "sample_lengths", "references", "weights", "logprobs", "lengths"]
        assert (sum(record["counts"]), sum(record["weights"])) == (5, 12)
        assert len(record["logprobs"]) == len(record["lengths"]) == len(record["references"])
    result = translate(sources, "-n", "5", *REFERENCES, "--format", "json", "--utilities",
                       "--weights", weights)
    passed = [{k: v for k, v in r.items() if k != "source"} for r in result.records]
    counted = run("decode", samples, "--utilities")
    assert "are not used" not in counted.err
    assert (passed == counted.records) == (weights == "uniform")
    if weights != "uniform":  # which ignores the counts of references in a file
        assert passed == run("decode", samples, "--utilities", "--weights", weights).records


def test_the_log_probabilities_of_samples_reach_decode_beside_references(sample, sources, tmp_path):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "5", *REFERENCES, "-o", samples)
    best = run("decode", samples, "--strategy", "rerank", "--metric", "logprob").records
    for record, found in zip(read(samples.read_text()), best, strict=True):
        logprobs = [p / n for p, n in
                    zip(record["sample_logprobs"], record["sample_lengths"], strict=True)]
        assert found["index"] == logprobs.index(max(logprobs))


def test_references_have_their_own_options_and_random_streams(sample, server, sources):
    server.usage = True
    result = sample(sources, "-n", "12", *REFERENCES)
    sent = {temperature: [b for b in server.bodies if b["temperature"] == temperature]
            for temperature in (1.0, 0.25)}
    assert [len(bodies) for bodies in sent.values()] == [4, 4]
    assert not {b["seed"] for b in sent[1.0]} & {b["seed"] for b in sent[0.25]}
    assert "|reference_samples:12|references.temperature:0.25|" in result.err
    assert "96 samples, 40 prompt_tokens, 288 completion_tokens" in result.err
    assert {r["usage"]["completion_tokens"] for r in result.records} == {72}
    same = sample(sources, "-n", "12", "--reference-samples", "12").records
    assert all(set(record["samples"]) != set(record["references"]) for record in same)
    alone = sample(sources, "-n", "12").records
    assert [r["samples"] for r in alone] == [r["samples"] for r in same]


def test_repeated_references_need_no_weights(sample, sources):
    for record in sample(sources, "-n", "5", *REFERENCES, "--repeat").records:
        assert "weights" not in record
        assert (len(record["samples"]), len(record["references"])) == (5, 12)


def test_a_configuration_file_has_the_options_of_references(server, sources, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(f"input: [{sources}]\nnum_samples: 5\nreference_samples: 12\n"
                      f"sampler:\n  name: openai\n  endpoint: {server.endpoint}\n  model: m\n"
                      "references:\n  temperature: 0.25\n")
    assert run("sample", "--config", config).records == run(
        "sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "5",
        *REFERENCES).records
    assert {body["temperature"] for body in server.bodies} == {1.0, 0.25}


@pytest.mark.parametrize("command", ["sample", "translate", "answer"])
def test_help_has_the_options_of_references_where_there_are_some(command):
    assert "--references.temperature" not in run(command, "--help-all").out
    assert "--reference-samples M" in run(command, "--help").out
    text = run(command, "--endpoint", "u", "--reference-samples", "4", "--help").out
    assert "Reference sampler openai:" in text
    assert "--references.temperature FLOAT" in text


def test_references_of_the_input_are_not_replaced(sample, server, tmp_path):
    path = write(tmp_path / "in.jsonl", {"source": "one", "references": ["eins"]},
                 {"source": "two"})
    result = sample(path, "-n", "2", *REFERENCES)
    first, second = result.records
    assert "found references in the input" in first["error"]
    assert "those of --reference-samples would replace" in result.err
    assert len(second["samples"]) > 0
    assert {body["messages"][-1]["content"] for body in server.bodies} == {"two"}
    assert "samples" in sample(path, "-n", "2").records[0]


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
    assert "minrisk: 1 segment, " in err


def test_the_signature_has_what_matters_and_no_key(sample, sources, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    result = sample(sources, "-n", "2", "--concurrency", "3", "-o", tmp_path / "out.jsonl")
    assert "model:m|" in result.err
    assert "n:2|seed:0" in result.err
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
    (["-n", "0"], "--num-samples must be an integer of at least 1; got 0"),
    (["--epsilon", "0.02"], "unknown option '--epsilon'; it belongs to sampler hf; see --help"),
    (["--temprature", "1"], "did you mean '--temperature'?"),
    (["--top-p", "2"], "--top-p must be a number above 0 and at most 1; got 2.0"),
    (["--sampler", "nobody"], "unknown sampler 'nobody'"),
    (["--resume"], "--resume needs --output to be a file or folder"),
    (["--system", "s", "--api", "completions"], "system is for chats"),
    (["--reference-samples", "0"], "--reference-samples must be an integer of at least 1; got 0"),
    (["--references.temperature", "1"], "it needs --reference-samples M; see --help"),
    (["--reference-samples", "4", "--references.top-p", "2"], "--references.top-p must be a "
     "number above 0 and at most 1; got 2.0"),
    (["--reference-samples", "4", "--references.temprature", "2"],
     "did you mean '--references.temperature'?"),
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


@pytest.mark.parametrize(("content", "message"), [
    (b'{"source": "one"}\n{"text": "x"}\n', "in:2: found the fields text, wanted source"),
    (b'{"source": "one"}\n{"source": 3}\n', "in:2: found source 3, wanted a string"),
    (b'{"source": "one"}\n{"prompt": ["x"]}\n', 'in:2: found prompt ["x"], wanted a string'),
    (b'{"source": "one"}\n{"messages": []}\n', "in:2: found messages [], wanted a list"),
    (b'{"source": "one"}\n{"messages": [{"content": "x"}]}\n', "in:2: found messages"),
    (b'{"source": "one"}\n{"prompt": "a", "messages": []}\n', "found both prompt and messages"),
    (b'{"source": "one"}\nplain\n', "give --input-format text"),
    (b'one\n\xff\n', "in:2: found byte 0xff"),
])
@pytest.mark.parametrize("command", ["sample", "translate"])
def test_a_bad_source_is_told_and_what_came_before_is_kept(
        request, tmp_path, command, content, message):
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_bytes(content)
    result = request.getfixturevalue(command)(path, "-n", "2", "-o", out, "--on-error", "stop")
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert not out.exists()
    again = request.getfixturevalue(command)(path, "-n", "2", "-o", out, "--resume")
    assert again.code == SOME_FAILED
    assert "1 segments finished" in again.err
    assert out.read_text().count("\n") == 2


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
    assert "the source is blank" in result.records[1]["error"]


@pytest.mark.parametrize("code", [400, 401, 503])
def test_an_endpoint_that_refuses_is_told_and_what_is_finished_is_kept(
        sample, server, sources, tmp_path, code):
    def moody(handler):
        bad = handler.body["messages"][-1]["content"] == "three"
        (status(code, "not with me") if bad else openai_server.answer)(handler)

    server.always = moody
    out = tmp_path / "out"
    result = sample(sources, "-n", "2", "-o", out, "--batch-size", "1", "--retries", "1",
                    "--on-error", "stop")
    assert result.code == 2
    assert f"{code} not with me" in result.err
    server.always = None
    server.bodies.clear()
    assert sample(sources, "-n", "2", "-o", out, "--batch-size", "1", "--resume").code == 0
    asked = {body["messages"][-1]["content"] for body in server.bodies}
    assert "three" in asked
    if code != 401:  # which concerns all, and ends the run before what is on its way is there
        assert asked == {"three"}


@pytest.mark.parametrize("where", ["", "-o @.jsonl", "-o @/", "-o @.jsonl --workers 1"])
def test_prompts_that_all_fail_are_sent_once(sample, server, sources, tmp_path, where):
    server.always = status(400, "not with me")
    args = ["-n", "1", "--retries", "0", *where.replace("@", f"{tmp_path}/out").split()]
    result = sample(sources, *args)
    assert result.code == 2
    assert "400 not with me; all 4 segments failed" in result.err
    assert sorted(body["messages"][-1]["content"] for body in server.bodies) == sorted(SOURCES)
    server.always = None
    assert sample(sources, *args).code == 0


def test_a_pipe_whose_prompts_all_fail_is_not_read_again(sample, server):
    server.always = status(400, "not with me")
    result = sample("-", "-n", "1", "--retries", "0", stdin=b"one\ntwo\n")
    assert "400 not with me; all 2 segments failed" in result.err
    assert len(server.bodies) == 2


def test_the_rest_of_a_batch_with_a_failure_is_kept_and_the_failure_drawn_again(
        sample, server, sources, tmp_path):
    whole = sample(sources, "-n", "4").records
    server.always = picky
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out, "--on-error", "stop").code == 2
    server.always = None
    server.bodies.clear()
    assert sample(sources, "-n", "4", "-o", out, "--resume").code == 0
    assert read(out.read_text()) == whole
    assert {body["messages"][0]["content"] for body in server.bodies} == {"three"}


def test_recorded_failures_are_drawn_again_when_a_run_is_resumed(sample, server, sources, tmp_path):
    whole = sample(sources, "-n", "4").records
    server.always = picky
    out = tmp_path / "out.jsonl"
    result = sample(sources, "-n", "4", "-o", out)
    assert result.code == SOME_FAILED
    assert f"the first failure: {sources}:3: " in result.err
    failed = read(out.read_text())[2]
    assert (failed["id"], failed["source"]) == (2, "three")
    assert f"{sources}:3: http" in failed["error"]
    server.always = None
    server.bodies.clear()
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 0
    assert "3 segments finished" in result.err
    assert read(out.read_text()) == whole
    assert {body["messages"][0]["content"] for body in server.bodies} == {"three"}


def test_a_field_called_error_is_no_failure(sample, server, tmp_path):
    path = write(tmp_path / "in.jsonl", {"source": "one", "error": "none"})
    out = tmp_path / "out.jsonl"
    assert sample(path, "-n", "2", "-o", out).code == 0
    server.bodies.clear()
    assert sample(path, "-n", "2", "-o", out, "--resume").code == 0
    assert server.bodies == []


def test_a_finished_file_is_not_overwritten_unless_asked_for(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    before = out.read_bytes()
    result = sample(sources, "-n", "2", "-o", out)
    assert result.code == 2
    assert "--resume goes on with it, --overwrite starts again" in result.err
    assert out.read_bytes() == before
    assert sample(sources, "-n", "2", "-o", out, "--overwrite").code == 0
    assert out.read_bytes() != before


def test_resuming_nothing_begins_and_resuming_everything_does_nothing(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out, "--resume").code == 0
    first = out.read_bytes()
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 0
    assert "4 segments finished" in result.err
    assert out.read_bytes() == first


def test_a_finished_file_that_somebody_changed_is_told(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    out.write_bytes(out.read_bytes()[:-9])
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 2
    assert "remove it to make it again" in result.err
    out.unlink()
    assert sample(sources, "-n", "4", "-o", out, "--resume").code == 0


@pytest.mark.parametrize(("args", "message"), [
    (["-n", "5"], "n was 4, is 5"),
    (["-n", "4", "--seed", "9"], "seed was 0, is 9"),
    (["-n", "4", "--temperature", "0.5"], "temperature was 1.0, is 0.5"),
    (["-n", "4", "--repeat"], "repeat was False, is True"),
    (["-n", "4", "--reference-samples", "4"], "reference_samples was None, is 4"),
])
def test_going_on_in_another_way_is_refused(sample, sources, tmp_path, args, message):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    before = out.read_bytes()
    result = sample(sources, *args, "-o", out, "--resume")
    assert result.code == 2
    assert message in result.err
    assert out.read_bytes() == before


def test_what_cannot_change_a_sample_may_change(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    assert sample(sources, "-n", "4", "-o", out, "--resume", "--concurrency", "1").code == 0


def test_going_on_with_another_input_is_refused(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    before = out.read_bytes()
    sources.write_text("one\ntwo\nother\nfour\n")
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 2
    assert f"input {sources} was 19 bytes" in result.err
    assert out.read_bytes() == before


def test_a_file_of_unknown_origin_is_left_alone(sample, sources, tmp_path):
    out = tmp_path / "notes.txt"
    out.write_text("my notes")
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 2
    assert "notes.txt exists, and no manifest says that minrisk made it" in result.err
    assert out.read_text() == "my notes"


@pytest.mark.parametrize("command", ["sample", "translate"])
def test_a_killed_run_goes_on_without_losing_or_repeating_a_segment(
        server: Faulty, tmp_path, command):
    sources = tmp_path / "sources.txt"
    sources.write_text("".join(f"source {i}\n" for i in range(40)))
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    args = [command, sources, "--endpoint", server.endpoint, "--model", "m", "-n", "4",
            "--batch-size", "2", "--prompt", "{source}",
            *(["--format", "json"] if command == "translate" else [])]
    assert run(*args, "-o", whole).code == 0
    server.bodies.clear()
    server.delay = 0.02
    for _ in range(2):
        with spawn(*args, "-o", out, "--resume") as process:
            kept = _kept(tmp_path)
            wait_for(lambda kept=kept: _kept(tmp_path) >= kept + 6)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    server.delay = 0.0
    assert run(*args, "-o", out, "--resume").code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert len(server.bodies) <= 40 + 2 * 16 * 2  # what was in the air is all that was lost


def _kept(folder: Path) -> int:
    """Segments that are on disk."""
    return sum(len(entry["indices"]) for path in folder.rglob("*.partial")
               for _, entry in Journal(str(path), f"{path.parent.name}/{path.stem}"))


def test_ctrl_c_does_not_wait_for_a_slow_server(server, sources, tmp_path):
    server.delay = 60
    with spawn("sample", sources, "--endpoint", server.endpoint, "--model", "m",
               "-o", tmp_path / "out") as process:
        wait_for(lambda: server.bodies)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert b"interrupted; segments in" in process.stderr.read()


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
    assert "needs an instruction besides the source; give --prompt" in result.err
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


def test_chats_need_a_sampler_that_takes_them(tmp_path):
    path = write(tmp_path / "in.jsonl", {"messages": [{"role": "user", "content": "hi"}]})
    result = run("sample", path, "--sampler", "ct2", "--model", "nowhere")
    assert result.code == 2
    assert "in.jsonl:1: found messages, which sampler 'ct2' does not take" in result.err


def test_a_translation_that_fails_keeps_its_place(translate, server, sources):
    server.always = picky
    result = translate(sources, "-n", "2", "--on-error", "skip")
    assert result.code == SOME_FAILED
    assert [bool(line) for line in result.out.split("\n")[:4]] == [True, True, False, True]
    stopped = translate(sources, "-n", "2", "--on-error", "stop")
    assert stopped.code == 2
    assert stopped.out == "\n".join(result.out.split("\n")[:2]) + "\n"


def test_an_output_that_is_an_input_is_refused(sample, sources):
    result = sample(sources, "-o", sources)
    assert result.code == 2
    assert "the output is the input" in result.err


def test_devices_have_no_file_beside_them(sample, sources):
    assert sample(sources, "-n", "1", "-o", "/dev/null").code == 0
    assert not Path("/dev/null.run.json").exists()
