"""`--config run.yaml`: what is wrong is reported at once, and names of other tools are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

import minrisk
from commands import Result, run, write
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk.cli.decode import decode
from minrisk.cli.options import entries
from minrisk.cli.other_tools import (
    NO_EQUIVALENT,
    OPTIONS,
    SAMPLING_OPTIONS,
    SCORE_OPTIONS,
    SERVE_OPTIONS,
    VALIDATE_OPTIONS,
)
from minrisk.cli.score import score
from minrisk.cli.serve import serve
from minrisk.cli.validate import validate
from tolerance import assert_close

# each line doubles the one before it: a kilobyte that stands for more than any memory holds
BOMB = "a0: &a0 {}\n" + "".join(f"a{i + 1}: &a{i + 1} {{x: *a{i}, y: *a{i}}}\n"
                               for i in range(40))


def told(tmp_path, content: str = "", *args: str, command: str = "decode") -> str:
    """The one line that says what is wrong."""
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "b"]})
    if content:
        (tmp_path / "run.yaml").write_text(content)
        args = (*args, "--config", str(tmp_path / "run.yaml"))
    result = run(command, samples, *args)
    assert result.code == 2, result.out
    assert result.err.count("\n") == 1, result.err
    return result.err


@pytest.mark.parametrize(("content", "message"), [
    ("metric: &it\n  chrf: *it\n", "run.yaml:2: found the alias *it"),
    (BOMB, "run.yaml:2: found the alias *a0"),
    ("a: &a [x]\ninput: [*a, *a]\n", "run.yaml:2: found the alias *a"),
    ("metric: chrf\nnbest: 2\nmetric: bleu\n", "run.yaml:3: found the key 'metric'"),
    ("metric: {order: 2, order: 3}\n", "run.yaml:1: found the key 'order'"),
    ('{"nbest": 2, "nbest": 3}', "run.yaml:1: found the key 'nbest'"),  # JSON is YAML
    ("metric: {word_order: 2, word-order: 1}\nmetric.word_order: 0\n",
     "run.yaml: found 'metric.word-order' in 3"),
    ("metric: 2024-99-99\n", "run.yaml: "),
    (f"nbest: {'1' * 5000}\n", "run.yaml: "),
    ("a: " + "[" * 5000, "run.yaml: "),
    ("metric: !!timestamp today\n", "run.yaml: "),
    ("quiet: !!bool maybe\n", "run.yaml: "),
    ("nbest: !!int ''\n", "run.yaml: "),
])
def test_a_file_that_says_things_twice_or_without_end_is_told(tmp_path, content, message):
    assert message in told(tmp_path, content)


@pytest.mark.parametrize(("command", "content", "message"), [
    ("validate", "common: {hypotheses: a.txt, num_candidates: 4}\n",
     "'common.hypotheses'; here it is INPUT"),
    ("export", "common: {num_candidates: 4}\n", "`num-candidates:`"),
    ("validate", "common: {decoder: mbr}\n", "--strategy"),
    ("decode", "decoder: mbr\n", "'decoder'; here it is --strategy"),
    ("decode", "format: plain\n", "--format text"),
])
def test_keys_of_mbrs_are_answered_with_ours(tmp_path, command, content, message):
    assert message in told(tmp_path, content, command=command)


LINES = ["the cat sat", "the cat sat down", "a cat sat", "dogs",
         "a dog barked", "the dogs barked", "the dog barked", "barking"]


def mbrs(tmp_path, content: str, *args: str) -> Result:
    """`decode` with this file of mbrs, in which FOLDER is the one of the texts."""
    (tmp_path / "hyps.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "run.yaml").write_text(content.replace("FOLDER", str(tmp_path)))
    return run("decode", "--config", tmp_path / "run.yaml", *args)


COMMON = """common:
  hypotheses: FOLDER/hyps.txt
  num_candidates: 4
"""


@pytest.mark.parametrize(("content", "flags"), [
    (COMMON, "--metric bleu"),
    (COMMON + """  references: FOLDER/hyps.txt
  nbest: 2
  output: "-"
  report: "-"
  report_format: tsv
  decoder: mbr
  metric: chrf
  selector: nbest
metric:
  char_order: 4
  num_workers: 8
""", "--metric chrf --metric.order 4 --nbest 2"),
    (COMMON + "  metric: ter\nmetric: {case_sensitive: true}\n",
     "--metric ter --metric.case-sensitive"),
    (COMMON + "  decoder: aggregate_mbr\nmetric: {lowercase: true}\n",
     "--strategy aggregate --metric bleu --metric.lowercase"),
    (COMMON + "  decoder: pruning_mbr\ndecoder:\n  sampling_scheduler: [2, 4]\n  alpha: 0.9\n"
     "  num_bootstrap_samples: 50\n",
     "--metric bleu --strategy prune --start 2 --alpha 0.9 --resamples 50"),
    (COMMON + "  decoder: probabilistic_mbr\ndecoder: {reduction_factor: 2, rank: 3}\n",
     "--metric bleu --strategy low-rank --budget 0.5 --factors 3"),
])
def test_a_file_of_mbrs_decodes_as_our_flags_do(tmp_path, content, flags):
    found = mbrs(tmp_path, content, "--report", tmp_path / "file.json")
    ours = run("decode", tmp_path / "hyps.txt", "-n", 4, "--format", "text",
               *flags.split(), "--report", tmp_path / "flags.json")
    assert found.code == ours.code == 0, found.err + ours.err
    assert found.out == ours.out
    signatures = [json.loads((tmp_path / name).read_text())["signatures"]
                  for name in ("file.json", "flags.json")]
    assert signatures[0] == signatures[1]
    assert ("ignored common.report_format, metric.num_workers," in found.err) == (
        "report_format" in content)


def test_the_command_line_wins_over_a_file_of_mbrs(tmp_path):
    found = mbrs(tmp_path, COMMON + "  metric: chrf\n", "--format", "json", "--nbest", "1")
    assert [len(record["nbest"]) for record in found.records] == [1, 1]


def test_all_keys_of_mbrs_without_a_translation_are_told_at_once(tmp_path):
    found = mbrs(tmp_path, COMMON + """  decoder: pruning_mbr
  metric: bertscore
  selector: diverse
metric: {lang: en, idf: true, batch_size: 2}
decoder: {sampling_scheduler: [8, 12]}
""")
    assert found.code == 2
    for told_of in ("unknown key 'selector'; here it is --strategy diverse",
                    "unknown key 'metric.lang'; there is none: name the --metric.model",
                    "unknown key 'metric.idf-sents'; here it is --metric.idf FILE",
                    "unknown key 'sampling-scheduler'; here it is --strategy prune --start S"):
        assert told_of in found.err


@pytest.mark.parametrize(("args", "message"), [
    ("--decoder aggregate_mbr", "--strategy: standard (mbr)"),
    ("--config_path run.yaml", "--config FILE"),
    ("--format plain", "--format text"),
    ("--metric.fp16", "--metric.dtype fp16"),
    ("--fp16", "--metric.dtype fp16"),
    ("--cpu", "--metric.device cpu"),
    ("--metric.batch_size 8", "--metric.tokens"),
    ("--metric.char_order 4", "--metric.order"),
    ("--model_storage_path x", "HF_HOME"),
    ("--method aggregate_to_fine", "--strategy: standard (pairwise)"),
    ("--utility comet22", "here it is --metric"),
    ("--metric.fastchrf", "'--metric.fastchrf'; it is not needed"),
    ("--sampling_scheduler 8", "--strategy prune --start S"),
    ("--log-time", "'--log-time'; it is not needed"),
    ("-w 2", "--report FILE"),
    ("--strategy mbr", "'mbr'; here it is 'standard'"),
    ("--strategy pruning_mbr", "'pruning_mbr'; here it is 'prune'"),
    ("--strategy probabilistic_mbr", "'probabilistic_mbr'; here it is 'low-rank'"),
    ("--strategy aggregate-to-fine --top-k 20", "here it is --keep"),
    ("--confidenc", "'--confidenc'; did you mean '--confidence'?"),
    ("--metric judge --base-url x", "--metric.endpoint"),
])
def test_options_of_other_tools_are_answered_with_ours(tmp_path, args, message):
    assert message in told(tmp_path, "", *args.split())


@pytest.mark.parametrize(("args", "message"), [
    ("-m chrf", "'-m'; here it is --metric; see"),
    ("--tokenize zh", "--metric.tokenize"),
    ("-tok zh", "here it is -r FILE"),
    ("-i best.txt", "here it is SYSTEM"),
    ("--paired-ar", "here it is --confidence"),
    ("--paired-ar-n 1000", "--resamples"),
    ("--format plain", "--score-only"),
])
def test_score_answers_options_of_sacrebleu_and_mbrs_with_its_own(tmp_path, args, message):
    assert message in told(tmp_path, "", *args.split(), command="score")


@pytest.mark.parametrize(("args", "message"), [
    ("--n 4", "here it is -n;"),
    ("--num-return-sequences 4", "here it is -n;"),
    ("--base-url http://127.0.0.1:9/v1", "here it is --endpoint"),
    ("--do_sample", "'--do-sample'; it is not needed"),
    ("--length_penalty 1", "'--length-penalty'"),
    ("--api-key sk-secret", "OPENAI_API_KEY"),
    ("--sampler ct2 --model x --epsilon 0.1", "'--epsilon'; CTranslate2"),
    ("-n 4", "--model TEXT"),
    ("--sampler openai --epsilon 0.1", "sampler hf"),
    ("--api-key=sk-secret", "--key-variable"),
])
def test_commands_that_sample_answer_options_of_transformers_and_openai(tmp_path, args, message):
    told_once = told(tmp_path, "", *args.split(), command="sample")
    assert message in told_once
    assert "sk-secret" not in told_once


def test_the_base_url_of_a_client_is_the_upstream_of_a_server():
    assert "--upstream" in run("serve", "--base-url", "http://h/v1").err


def test_sources_is_the_name_that_comet_mbr_has_for_the_source(tmp_path):
    hyps, sources = tmp_path / "hyps.txt", tmp_path / "src.txt"
    hyps.write_text("a\nb\n")
    sources.write_text("x\n")
    result = run("decode", hyps, "-n", 2, "--sources", sources)
    assert result.code == 0, result.err
    assert result.records[0]["text"] == "a"


def test_every_option_that_a_hint_names_is_one_of_ours():
    known = {prefix + field.flag[2:]
             for registry, prefix in ((STRATEGIES, "--"), (SAMPLERS, "--"), (METRICS, "--metric."))
             for entry in entries(registry) for field in entry.fields}
    known |= {name for command in (decode, score, serve, validate) for option in command.params
              for name in option.opts}
    tables = (OPTIONS, SAMPLING_OPTIONS, SCORE_OPTIONS, SERVE_OPTIONS, VALIDATE_OPTIONS,
              NO_EQUIVALENT)
    texts = [text for table in tables for text in table.values()]
    named = {word.rstrip(",:;") for text in texts for word in text.split()
             if word.startswith("--")}
    assert named <= known


@pytest.mark.parametrize(("content", "message"), [
    ("nbest: two\n", "run.yaml: nbest must be an integer of at least 1; got 'two'"),
    ("nbest: 1.5\n", "run.yaml: nbest "),
    ("nbest: true\n", "run.yaml: nbest "),
    ("metric: {order: six}\n", "run.yaml: metric.order "),
    ("strategy: {name: aggregate, groups: 0}\n", "run.yaml: groups "),
    ("on_error: panic\n", "run.yaml: on-error "),
    ("utilities: 3\n", "run.yaml: utilities must be true or false"),
    ("keep: 3\n", "run.yaml: unknown key 'keep'"),
    ("config: run.yaml\n", "run.yaml: unknown key 'config'"),
    ("help: true\n", "run.yaml: unknown key 'help'"),
])
def test_a_wrong_value_of_a_file_is_told_with_its_name(tmp_path, content, message):
    assert message in told(tmp_path, content)


@pytest.mark.parametrize(("content", "flags", "shown"), [
    ("strategy: aggregate\ncontiguous: true\n", ["--no-contiguous"], "contiguous:no"),
    ("strategy: aggregate\ncontiguous: true\n", [], "contiguous:yes"),
    ("strategy: {name: aggregate, groups: 2}\n", ["--groups", "1"], "groups:1"),
    ("strategy: coarse-to-fine\ncoarse: {name: chrf, order: 2}\n", [], "coarse.order:2"),
    ("strategy: coarse-to-fine\ncoarse: {name: bleu, order: 2}\n", ["--coarse", "chrf"],
     "coarse.order:2"),
    ("metric: {name: chrf+bleu, chrf.order: 3}\n", [], "chrf.order:3"),
    ("metric: {name: chrf+bleu, chrf: {order: 3}}\n", [], "chrf.order:3"),
])
def test_options_of_a_metric_or_strategy_in_a_file_count_unless_a_flag_does(
        tmp_path, content, flags, shown):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "b"]})
    (tmp_path / "run.yaml").write_text(content)
    result = run("decode", samples, "--config", tmp_path / "run.yaml", *flags,
                 "--report", tmp_path / "report.json")
    assert result.code == 0, result.err
    assert f"{shown}|" in json.loads((tmp_path / "report.json").read_text())["signatures"][0]


def test_several_values_in_a_file_are_a_list(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a b", "b", "a"]})
    (tmp_path / "run.yaml").write_text(f"input: {samples}\nstrategy: [standard, aggregate]\n")
    result = run("validate", "--config", tmp_path / "run.yaml", "--format", "json")
    assert result.code == 0, result.err
    assert '"aggregate"' in result.out
    assert '"n-by-s"' not in result.out


def test_a_cascade_is_the_same_from_flags_a_file_and_python(tmp_path):
    texts = ["the cat sat", "a cat sat", "the cat sat", "a dog ran", "the cat sat down"]
    samples = write(tmp_path / "in.jsonl", {"samples": texts})
    config = tmp_path / "run.yaml"
    config.write_text("strategy: {name: cascade, keep: 2, coarse: {name: aggregate, groups: 2,"
                      " metric: {name: chrf, order: 3}}}\n"
                      "metric: {name: bleu, order: 2}\nseed: 4\n")
    flags = run("decode", samples, "--strategy", "cascade", "--keep", "2", "--coarse", "aggregate",
                "--coarse.groups", "2", "--coarse.metric", "chrf", "--coarse.metric.order", "3",
                "--metric", "bleu", "--metric.order", "2", "--seed", "4", "--utilities")
    file = run("decode", samples, "--config", config, "--utilities")
    coarse = minrisk.Aggregate(minrisk.ChrF(3), 2, seed=4)
    python = minrisk.decode(texts, metric=minrisk.BLEU(2), strategy="cascade", coarse=coarse,
                            keep=2)
    assert flags.records == file.records
    assert flags.err.split("\n")[0] == file.err.split("\n")[0]
    found = [np.nan if u is None else u for u in flags.records[0]["utilities"]]
    assert_close(np.array(found), python.utility, scale=100)
    assert python == minrisk.decode(texts, strategy=minrisk.Cascade(
        coarse, minrisk.Standard(minrisk.BLEU(2)), 2))


def test_stages_have_the_metric_of_the_whole_unless_they_name_one():
    bleu = minrisk.BLEU()
    made = minrisk.make_strategy("cascade", bleu, coarse="aggregate")
    assert made == minrisk.Cascade(minrisk.Aggregate(bleu), minrisk.Standard(bleu))
    assert made.metric == bleu
    other = minrisk.make_strategy("cascade", bleu, coarse="aggregate",
                                  fine=minrisk.Standard("chrf"))
    assert (other.coarse.metric, other.metric) == (bleu, minrisk.ChrF())


def test_a_stage_of_a_stage_has_its_options(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a cat", "the cat", "cats", "a dog"]})
    found = run("decode", samples, "--strategy", "cascade", "--coarse", "cascade",
                "--coarse.coarse", "aggregate", "--coarse.coarse.metric", "bleu",
                "--coarse.fine", "n-by-s", "--coarse.fine.subset", "2", "--coarse.keep", "3",
                "--keep", "1", "--utilities")
    inner = minrisk.Cascade(minrisk.Aggregate("bleu"), minrisk.NByS("chrf", 2), 3)
    [expected] = minrisk.Cascade(inner, keep=1).rank([minrisk.Segment(
        ["a cat", "the cat", "cats", "a dog"])])
    assert found.records[0]["index"] == expected.best
    assert found.records[0]["pairs"] == expected.pairs
    assert told(tmp_path, "", "--strategy", "cascade").count("needs --coarse")
    assert "--coarse.subset" in told(tmp_path, "", "--strategy", "cascade", "--coarse", "n-by-s")
