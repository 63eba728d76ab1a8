"""`minrisk score` beside `sacrebleu`, on the same files."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk._core.registry import METRICS
from minrisk._core.signature import metric_signature
from small_metrics import Common, Shared


@pytest.fixture(scope="module")
def files(bundled, tmp_path_factory):
    """Outputs and references of the bundled segments, as sacreBLEU reads them."""
    folder = tmp_path_factory.mktemp("score")
    columns = {"ref": [r["reference"] for r in bundled], "beam": [r["beam5"] for r in bundled],
               "other": [r["samples"][1] for r in bundled], "src": [r["source"] for r in bundled],
               "sample": [r["samples"][0] for r in bundled]}
    for name, lines in columns.items():
        text = "".join(f"{line} \r\n" for line in lines)  # what is at the end does not count
        (folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    return folder


def sacrebleu(files, *args):
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *args], cwd=files, check=True,
                          capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    return done.stdout


def score(files, *args):
    result = run("score", *(files / arg if arg.endswith(".txt") else arg for arg in args))
    assert result.code == 0, result.err
    return result.out


def as_ours(signature):
    """A signature of sacreBLEU with our version."""
    return f"{signature.rpartition('|version:')[0]}|version:minrisk-{minrisk.__version__}"


def test_one_system_has_sacrebleus_fields_and_numbers(files):
    ours = json.loads(score(files, "beam.txt", "-r", "ref.txt", "--confidence", "-w", "2"))
    theirs = json.loads(sacrebleu(files, "ref.txt", "-i", "beam.txt", "-m", "chrf",
                                  "--confidence", "-w", "2"))  # whose mean is in single precision
    assert ours["name"] == "chrf"
    assert ours.keys() == theirs.keys() - {"verbose_score"}
    for key in ours.keys() - {"name", "signature", "version"}:
        assert ours[key] == theirs[key]
    assert ours["signature"] == as_ours(theirs["signature"])


def test_several_systems_have_sacrebleus_numbers(files):
    options = ["--paired-bs", "-f", "latex", "-w", "2"]
    ours = score(files, "beam.txt", "sample.txt", "-r", "ref.txt", "-r", "other.txt",
                 "--metric.word-order", "2", *options)
    theirs = sacrebleu(files, "ref.txt", "other.txt", "-i", "beam.txt", "sample.txt",
                       "-m", "chrf", "-cw", "2", *options)
    for system in ("beam.txt", "sample.txt"):
        numbers = [re.search(rf"{system} +& *(.*?) *\\\\", table)[1] for table in (ours, theirs)]
        assert numbers[0].replace(r"$\pm$", "±") == numbers[1]


def test_several_systems_are_a_list_with_all_digits(files):
    first, second = json.loads(score(files, "beam.txt", "sample.txt", "-r", "ref.txt",
                                     "--paired-bs"))
    assert first["system"].endswith("beam.txt")
    assert first["chrf"]["p_value"] is None
    assert 0 < second["chrf"]["p_value"] <= 0.05
    assert second["chrf"].keys() == {"score", "p_value", "mean", "ci", "test"}


def test_the_test_is_named_and_sacrebleus_only_where_it_is_asked_for(files):
    systems = ["beam.txt", "sample.txt", "-r", "ref.txt", "--resamples", "200"]
    tables = {flag: score(files, *systems, flag, "-f", "text")
              for flag in ("--confidence", "--paired-bs")}
    assert "permutation test" in tables["--confidence"]
    assert "|bs:200|ar:200|seed:12345|" in tables["--confidence"]
    assert "bootstrap test" in tables["--paired-bs"]
    assert "|bs:200|seed:12345|" in tables["--paired-bs"]
    for flag, test in (("--confidence", "permutation"), ("--paired-bs", "bootstrap")):
        base, other = (row["chrf"] for row in json.loads(score(files, *systems, flag)))
        assert (base["test"], other["test"]) == (None, test)


def test_secrets_of_urls_are_not_shown(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
    import object_store  # noqa: F401 - the protocol

    monkeypatch.setenv("MINRISK_TEST_BUCKET", str(tmp_path))
    (tmp_path / "host").mkdir()
    for name, count in (("a", 2), ("b", 2), ("c", 3)):
        (tmp_path / "host" / name).write_text("the cat sat\n" * count)
    systems = [f"bucket://me:secret@host/{name}?token=secret" for name in "ab"]
    found = run("score", *systems, "-r", systems[0])
    assert found.code == 0, found.err
    assert [row["system"] for row in json.loads(found.out)] == ["bucket://host/a?***",
                                                                "bucket://host/b?***"]
    wrong = run("score", systems[0], "-r", systems[0], "-r", "bucket://me:secret@host/c")
    assert "bucket://host/c has 3 lines" in wrong.err
    assert "secret" not in found.err + wrong.err


def test_sentences_are_sacrebleus(files):
    theirs = sacrebleu(files, "ref.txt", "-i", "beam.txt", "-m", "chrf", "-sl", "-b", "-w", "6")
    assert score(files, "beam.txt", "-r", "ref.txt", "--sl", "-b", "-w", "6") == theirs
    with_spaces = sacrebleu(files, "ref.txt", "-i", "beam.txt", "-m", "chrf", "-sl", "-b",
                            "--chrf-whitespace")
    assert score(files, "beam.txt", "-r", "ref.txt", "--sl", "-b",
                 "--metric.whitespace") == with_spaces
    first = score(files, "beam.txt", "-r", "ref.txt", "--sl").split("\n")[0]
    full = sacrebleu(files, "ref.txt", "-i", "beam.txt", "-m", "chrf", "-sl", "-f", "text")
    theirs, _, number = full.split("\n")[0].partition(" = ")
    assert first == f"chrf|{as_ours(theirs.partition('|')[2])} = {number}"


def test_sentences_have_an_effective_order_in_their_signature(files):
    shown = score(files, "beam.txt", "-r", "ref.txt", "--metric", "bleu", "--sl")
    assert shown.startswith("bleu|nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|")


def test_the_table_marks_what_is_significant(files):
    table = score(files, "beam.txt", "sample.txt", "-r", "ref.txt", "--paired-bs", "-f", "text")
    head, baseline, other, *_ = table.split("\n")
    assert head.split() == ["system", "chrf"]
    assert baseline.startswith("Baseline: ")
    assert "p =" not in baseline
    assert other.endswith(")*")
    assert "bs:1000|seed:12345" in table


def test_there_is_one_signature_in_sacrebleus_words(files):
    theirs = json.loads(sacrebleu(files, "ref.txt", "-i", "beam.txt", "-m", "bleu"))
    ours = json.loads(score(files, "beam.txt", "-r", "ref.txt", "--metric", "bleu"))
    assert ours["signature"] == as_ours(theirs["signature"])
    table = score(files, "beam.txt", "sample.txt", "-r", "ref.txt", "--metric", "bleu",
                  "-f", "text")
    assert table.split("\n")[-2] == f"bleu|{ours['signature']}"
    assert "effective_order" not in table


def test_options_that_sacrebleu_does_not_have_are_in_our_own_words(files):
    found = json.loads(score(files, "beam.txt", "-r", "ref.txt", "--metric.beta", "1"))
    assert found["signature"] == metric_signature(minrisk.ChrF(beta=1), nrefs=1)


def test_quality_is_scored_without_references(files, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "shared", "small_metrics:Shared")
    found = json.loads(score(files, "beam.txt", "--sources", "src.txt", "--metric", "shared",
                             "-w", "6"))
    lines = [(files / f"{name}.txt").read_text(encoding="utf-8").splitlines()
             for name in ("beam", "src")]
    expected = minrisk.score({"x": lines[0]}, sources=lines[1], metric=Shared())["x"].value
    assert found["score"] == round(expected, 6)
    assert found["nrefs"] == "0"


def test_latex_escapes_every_character_that_means_something_to_it(files, tmp_path):
    name = r"a\b{c}^d~e_f&g%h#i$j<k>l|m.txt"
    (tmp_path / name).write_bytes((files / "beam.txt").read_bytes())
    table = run("score", tmp_path / name, files / "sample.txt", "-r", files / "ref.txt", "-f",
                "latex").out
    assert (r"a\textbackslash{}b\{c\}\textasciicircum{}d\textasciitilde{}e\_f\&g\%h\#i\$j"
            r"\textless{}k\textgreater{}l\textbar{}m.txt & ") in table


def test_latex_is_a_table_with_its_characters_escaped(files, tmp_path):
    (tmp_path / "my_system.txt").write_bytes((files / "beam.txt").read_bytes())
    result = run("score", tmp_path / "my_system.txt", files / "sample.txt", "-r",
                 files / "ref.txt", "-f", "latex", "--paired-bs")
    assert result.out.startswith("\\begin{tabular}{lr}\n\\toprule\n")
    assert r"my\_system.txt & " in result.out
    assert r"$\pm$" in result.out


def test_the_number_alone(files):
    assert score(files, "beam.txt", "-r", "beam.txt", "-b", "-w", "0") == "100\n"
    assert score(files, "beam.txt", "-r", "beam.txt", "-f", "text").endswith(" = 100.0\n")


def test_standard_input_and_compressed_files_are_read(files):
    (files / "ref.gz").write_bytes(gzip.compress((files / "ref.txt").read_bytes()))
    result = run("score", "-", "-r", files / "ref.gz", stdin=(files / "beam.txt").read_bytes())
    assert json.loads(result.out) == json.loads(score(files, "beam.txt", "-r", "ref.txt"))


def test_several_metrics_share_the_options_they_have(files, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "common", "small_metrics:Common")
    found = json.loads(score(files, "beam.txt", "-r", "ref.txt", "-s", "src.txt", "--metric",
                             "chrf", "--metric", "common", "--metric.order", "2"))
    assert [one["name"] for one in found] == ["chrf", "common"]
    assert found[0]["nc"] == "2"
    assert "order" not in found[1]
    lines = [(files / f"{name}.txt").read_text(encoding="utf-8").splitlines()
             for name in ("beam", "ref", "src")]
    expected = minrisk.score({"x": lines[0]}, lines[1], lines[2], metric=Common())["x"].value
    assert found[1]["score"] == round(expected, 1)


@dataclass(frozen=True)
class Different(Common):
    """an error, negated"""

    name: ClassVar[str] = "different"
    needs_source: ClassVar[bool] = False
    is_error: ClassVar[bool] = True

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs[None]).sum(axis=2)


def test_errors_are_shown_with_their_own_sign(files, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "different", "test_score_command:Different")
    args = ["sample.txt", "-r", "ref.txt", "--metric", "different"]
    found = json.loads(score(files, *args, "--confidence", "-w", "3"))
    assert found["score"] > 0
    assert found["confidence_mean"] == pytest.approx(found["score"], abs=0.1)
    sentences = [float(line) for line in score(files, *args, "--sl", "-b").split()]
    assert min(sentences) == 0 < max(sentences)


@pytest.mark.parametrize(("args", "message"), [
    ("@beam.txt", "-r FILE"),
    ("@beam.txt --metric shared", "-s FILE"),
    ("@beam.txt --metric shared --metric chrf -s @src.txt", "'chrf'"),
    ("-r @ref.txt", "'SYSTEM...'"),
    ("@none.txt -r @ref.txt", "cannot read"),
    ("@short.txt -r @ref.txt", "short.txt has 1 lines"),
    ("@beam.txt -r @ref.txt -r @short.txt", "short.txt has 1 lines"),
    ("@beam.txt -r @ref.txt -s @short.txt", "source has 1 lines"),
    ("@beam.txt @beam.txt -r @ref.txt", "beam.txt"),
    ("- -r -", "standard input"),
    ("@beam.txt @ref.txt -r @ref.txt --sl", "--sentence-level"),
    ("@beam.txt -r @ref.txt -f latex", "--format latex"),
    ("@beam.txt -r @ref.txt --metric chrff", "'chrf'?"),
    ("@beam.txt -r @ref.txt --metric.oder 3", "'--metric.order'?"),
    ("@beam.txt -r @ref.txt --metric comet", "needs"),
])
def test_what_makes_no_sense_is_told_in_one_line(files, args, message, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "shared", "small_metrics:Shared")
    (files / "short.txt").write_text("one\n")
    result = run("score", *args.replace("@", f"{files}/").split())
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("name", ["best.jsonl", "best.txt.gz"])
def test_what_decode_writes_is_scored_by_its_texts(name, tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a cat sat", "a cat sat"]},
                    {"samples": ["a dog", "a dog"]}, {"samples": []})
    references = write(tmp_path / "ref.txt", "a cat sat", "a dog", "nothing")
    output = tmp_path / name
    run("decode", samples, "-o", output, *(["--format", "text"] if ".txt" in name else []))
    found = run("score", output, "-r", references, "--sl", "-b", "-w", "1")
    assert found.out.split() == ["100.0", "100.0", "0.0"], found.err


def test_quiet_hides_the_warning_of_bias(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "a b"]})
    output = tmp_path / "best.jsonl"
    run("decode", samples, "-o", output)
    references = write(tmp_path / "ref.txt", "a")
    assert "overestimates" in run("score", output, "-r", references).err
    assert run("score", output, "-r", references, "-q").err == ""


def test_an_abstention_is_scored_as_an_empty_text(tmp_path):
    output = write(tmp_path / "out.jsonl", {"text": None, "abstained": True}, {"text": "a dog"})
    references = write(tmp_path / "ref.txt", "a cat", "a dog")
    assert run("score", output, "-r", references, "--sl", "-b").out.split() == ["0.0", "100.0"]


def test_text_that_begins_with_a_brace_is_text(tmp_path):
    text = write(tmp_path / "out.txt", '{"temperature": 3}', "{x}")
    assert run("score", text, "-r", text, "-b").out.strip() == "100.0"


def test_samples_are_no_output(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a"]})
    found = run("score", samples, "-r", samples)
    assert found.code == 2
    assert f"{samples}:1: found text" in found.err


def test_an_ablation_says_what_a_pool_loses_without_each_model(tmp_path):
    path = tmp_path / "answers.jsonl"
    lines = [{"text": "4", "samples": ["4", "5", "6"], "counts": [2, 1, 1], "gold": "4",
              "models": ["good", "good", "bad"]},
             {"text": "7", "samples": ["8", "7"], "counts": [2, 3], "gold": "7",
              "models": ["good", "bad"]},
             {"text": "1", "samples": ["1"], "gold": "1", "models": ["good"]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = run("score", path, "--gold", "gold", "--metric", "exact-match", "--ablation",
                "exact-match")
    scores = {one["system"].rpartition(": ")[2]: one["exact-match"]["score"]
              for one in json.loads(found.out)}
    assert {name: round(3 * scores[name] / scores["all models"]) for name in (
        "all models", "without good", "without bad")} == {
            "all models": 3, "without good": 1, "without bad": 2}


def test_an_ablation_chooses_nothing_where_no_sample_counts_any_more(tmp_path):
    path = tmp_path / "answers.jsonl"
    write(path, {"text": "4", "samples": ["4", "5"], "gold": "4", "models": ["good", "mute"],
                 "weights": [1.0, 0.0]})
    found = run("score", path, "--gold", "gold", "--metric", "exact-match", "--ablation",
                "exact-match")
    scores = {one["system"].rpartition(": ")[2]: one["exact-match"]["score"]
              for one in json.loads(found.out)}
    assert scores["without good"] == 0 < scores["without mute"]


def test_an_ablation_needs_samples_of_several_models(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"text": "4", "samples": ["4"], "gold": "4"}\n')
    found = run("score", path, "--gold", "gold", "--metric", "exact-match", "--ablation", "chrf")
    assert found.code == 2
    assert "models" in found.err
