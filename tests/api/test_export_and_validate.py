"""`minrisk.export` and `minrisk.validate`: the results of the command line, and their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

import minrisk
from commands import run, write
from generators import corpus


def test_examples_are_those_of_the_command_line(tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus())
    flags = ["--pairs", "consecutive", "--stride", "3", "--conversational"]
    lines = run("export", path, *flags).records
    options: Any = {"pairs": "consecutive", "stride": 3, "conversational": True}
    assert list(minrisk.export(path, **options)) == lines
    assert list(minrisk.export(corpus(), **options)) == lines
    run("export", path, "--format", "tsv", "-o", tmp_path / "cli.tsv")
    summary = minrisk.export(path, format="tsv", output=tmp_path / "api.tsv")
    assert summary.segments == 6
    assert (tmp_path / "api.tsv").read_bytes() == (tmp_path / "cli.tsv").read_bytes()


def test_line_separators_of_unicode_are_part_of_a_text():
    text = "a\u2028b\u2029c\x85d\x1ce\nf"
    assert list(minrisk.export([{"source": text, "samples": [text]}])) == [
        {"source": text, "target": text}]


def test_a_segment_that_gives_no_example_is_told():
    segments = [{"source": "s", "samples": ["a"]}, {"samples": ["b"]}]
    with pytest.warns(UserWarning, match="segment 1"):
        assert list(minrisk.export(segments)) == [{"source": "s", "target": "a"}]


@pytest.mark.parametrize(("options", "message"), [
    ({"format": "xml", "output": "o"}, "format .* 'xml'"),
    ({"format": "tsv"}, "output="),
    ({"format": "tsv", "output": "o", "pairs": "best-worst"}, "format='json'"),
    ({"pairs": "best"}, "pairs .* 'best'"), ({"stride": 0}, "stride"),
    ({"stride": 2}, "pairs='consecutive'"),
    ({"prompt": "x", "conversational": True}, r"\{source\}"),
    ({"prompt": "{source}"}, "conversational="),
])
def test_wrong_arguments_of_export_get_our_errors(options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.export(corpus(1), **options)


def without_seconds(found: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on how busy the machine is."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in found["trials"]]
    return {k: v for k, v in found.items() if k not in ("recommended", "fastest")} | {
        "trials": rows}


def test_a_validation_is_that_of_the_command_line(tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus())
    flags = ["--strategy", "aggregate", "--strategy", "n-by-s", "--seed", "4", "--limit", "5"]
    told = json.loads(run("validate", path, *flags, "--format", "json", "-q").out)
    options: Any = {"strategies": ["aggregate", "n-by-s"], "seed": 4, "limit": 5}
    output = tmp_path / "outcomes.jsonl"
    for segments, more in ((path, {}), (corpus(), {}), (iter(corpus()), {"output": output})):
        found = minrisk.validate(segments, **options | more)
        assert without_seconds(found.as_json()) == without_seconds(told)
    assert output.read_text().count("\n") == 5
    found.save(tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == found.as_json()
    assert found.recommended in found.rows
    assert str(found).startswith("strategy ")
    assert "By pairs: " in str(found)


def test_a_validation_is_plotted_as_by_the_command_line(tmp_path):
    pytest.importorskip("matplotlib")
    found = minrisk.validate(corpus(2), strategies=["aggregate"])
    found.plot(tmp_path / "accuracy.svg")
    assert (tmp_path / "accuracy.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(minrisk.InputError, match="name"):
        found.plot(tmp_path / "accuracy.gif")


def test_what_a_metric_cannot_do_is_told_and_further_metrics_are_taken():
    found = minrisk.validate(corpus(2), lambda hyp, ref: float(len(hyp) == len(ref)),
                             coarse="chrf")
    tried = {row.trial.strategy for row in found.rows}
    assert "coarse-to-fine" in tried
    assert "aggregate" not in tried
    assert any(reason.startswith("without aggregate: ") for reason in found.skipped)


@pytest.mark.parametrize(("args", "options", "message"), [
    ((5,), {}, "segments .* 5"), (([],), {}, "no segments"),
    (([["a"]],), {"top": 0}, "top .* 0"),
    (([["a"]],), {"tolerance": -1}, "tolerance .* -1"),
    (([["a"]],), {"strategies": "aggregate"}, "strategies"),
    (([["a"]],), {"strategies": ["agregate"]}, "'agregate'"),
    (([["a"]],), {"limt": 3}, "'limt'"),
    (([["a"]],), {"output": "out/"}, "file"),
    (([[]],), {}, "segment 0"),
])
def test_wrong_arguments_of_validate_get_our_errors(args, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.validate(*args, **options)
