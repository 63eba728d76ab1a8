"""A warning names a system that is judged by the metric that chose it."""

from __future__ import annotations

import json

import pytest

import minrisk
from commands import run, write
from minrisk.evaluation.metric_bias import bias_warning, origin_of

SAMPLES = ["the cat sat", "a cat sat", "the cat sat down"]


@pytest.mark.parametrize(("chosen_by", "strategy", "judge", "shared"), [
    ("chrf", {}, "chrf", "chrf"),
    ("chrf", {}, "bleu", None),
    ("bleu*0.5+cached:chrf", {}, "symmetric:chrf", "chrf"),
    ("symmetric:ter", {}, "bleu+ter", "ter"),
    ("bleu+chrf", {}, "chrf+bleu", "bleu and chrf"),
    ("bleu", {"strategy": "coarse-to-fine", "coarse": "chrf", "keep": 2}, "chrf", "chrf"),
    ("bleu", {"strategy": "cluster", "similarity": "ter"}, "ter", "ter")])
def test_every_metric_of_the_signature_counts(chosen_by, strategy, judge, shared):
    signature = minrisk.decode(SAMPLES, metric=chosen_by, **strategy).signature
    found = bias_warning("mbr", signature, minrisk.make_metric(judge))
    if shared is None:
        assert found is None
    else:
        assert found.startswith(f"mbr was chosen by {shared}, which overestimates it")


def test_a_cascade_of_strategies_is_seen_through():
    cascade = minrisk.Cascade(minrisk.Aggregate("chrf"), minrisk.Standard("bleu"), keep=2)
    signature = minrisk.decode(SAMPLES, strategy=cascade).signature
    assert bias_warning("mbr", signature, minrisk.ChrF())
    assert not bias_warning("mbr", signature, minrisk.Ter())


def test_a_function_and_an_unknown_strategy_are_names_like_others():
    signature = "strategy:of-a-plugin|metric:overlap"
    assert bias_warning("mbr", signature, minrisk.ChrF()) is None
    assert bias_warning("mbr", None, minrisk.ChrF()) is None
    assert bias_warning("mbr", {"strategy": "of-a-plugin", "metric": "chrf"}, minrisk.ChrF())


def test_scores_warn_of_systems_whose_origin_is_given():
    ranking = minrisk.decode(SAMPLES)
    systems = {"beam": ["a cat"], "mbr": [ranking.text]}
    with pytest.warns(UserWarning, match="chrf"):
        minrisk.score(systems, ["the cat"], origins={"mbr": ranking.signature})
    minrisk.score(systems, ["the cat"], metric="bleu", origins={"mbr": ranking.signature})


@pytest.fixture
def output(tmp_path):
    """The output of a run, and references for it."""
    samples = write(tmp_path / "samples.jsonl", {"samples": SAMPLES})
    run("decode", samples, "--format", "text", "-o", tmp_path / "mbr.txt")
    write(tmp_path / "ref.txt", "the cat sat on it")
    return tmp_path / "mbr.txt"


def test_the_command_line_reads_the_settings_beside_an_output(output):
    references = output.with_name("ref.txt")
    biased = run("score", output, "-r", references)
    assert (biased.code, json.loads(biased.out)["name"]) == (0, "chrf")
    assert f"warning: {output} was chosen by chrf" in biased.err
    assert "warning" not in run("score", output, "-r", references, "--metric", "ter").err


def test_another_metric_is_advised_only_where_there_is_none(output):
    def errors(*metrics):
        flags = [word for metric in metrics for word in ("--metric", metric)]
        return run("score", output, "-r", output.with_name("ref.txt"), *flags).err

    assert errors("chrf").count("judge it by another metric too") == 1
    assert errors("chrf", "symmetric:chrf").count("judge it by another metric too") == 1
    both = errors("chrf", "ter")
    assert both.count("was chosen by chrf, which overestimates it") == 1
    assert "judge it by another" not in both


def test_a_shard_of_a_folder_has_the_settings_of_its_run(output):
    folder = output.with_name("out")
    run("decode", output.with_name("samples.jsonl"), "-o", f"{folder}/")
    assert origin_of(str(folder / "samples.jsonl"))["metric"] == "chrf"


def test_settings_of_another_text_are_not_its_origin(output):
    assert origin_of(str(output))["metric"] == "chrf"
    output.write_text("something else that stands there now\n", encoding="utf-8")
    assert origin_of(str(output)) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"finished": 1}', "[" * 100_000])
def test_a_file_that_says_nothing_is_no_origin(output, content):
    output.with_name("mbr.txt.run.json").write_text(content)
    assert origin_of(str(output)) is None
    assert origin_of("-") is None
