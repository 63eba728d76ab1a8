"""Separate references of `minrisk sample` and `minrisk translate`."""

from __future__ import annotations

import pytest

from commands import read, run, write

REFERENCES = ["--reference-samples", "12", "--references.temperature", "0.25"]


@pytest.mark.parametrize("weights", ["uniform", "logprobs", "length-normalised"])
def test_translate_with_separate_references_is_sample_and_decode(
        sample, translate, sources, tmp_path, weights):
    samples = tmp_path / "samples.jsonl"
    sample(sources, "-n", "5", "--prompt", "In French: {source}", *REFERENCES, "-o", samples)
    for record in read(samples.read_text()):
        assert len(record["sample_logprobs"]) == len(record["sample_lengths"]) == len(
            record["samples"])
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
    assert "references" in first["error"]
    assert "--reference-samples" in result.err
    assert len(second["samples"]) > 0
    assert {body["messages"][-1]["content"] for body in server.bodies} == {"two"}
    assert "samples" in sample(path, "-n", "2").records[0]
