"""Functions and programs of somebody else's as metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import minrisk
from commands import run, spawn, wait_for, write
from minrisk._core.registry import METRICS
from minrisk.metrics.user_code.command import Command, Program, _program
from minrisk.metrics.user_code.python import Python
from minrisk.testing import check_metric
from small_metrics import scores

FUNCTIONS = '''
def overlap(hypothesis, reference):
    return len(set(hypothesis.split()) & set(reference.split()))

def with_source(hypothesis, reference, source):
    return len(source) + len(hypothesis) - len(reference)

def in_lists(hypotheses, references):
    return [overlap(h, r) for h, r in zip(hypotheses, references, strict=True)]

def distance(hypothesis, reference):
    return abs(len(hypothesis) - len(reference))

def failing(hypothesis, reference):
    raise KeyError("no such thing")

def wordy(hypothesis, reference):
    return "good"

def short(hypotheses, references):
    return [1.0]

def lost(hypothesis, reference):
    return float("nan")

def huge(hypothesis, reference):
    return 10**400

def leaving(hypothesis, reference):
    if hypothesis == "b":
        raise SystemExit(3)
    return 1.0

def interrupting(hypothesis, reference):
    raise KeyboardInterrupt

def closing(hypothesis, reference):
    raise GeneratorExit

def talking(hypothesis, reference):
    print("I am thinking")
    return len(hypothesis)

def waiting(hypothesis, reference):
    pathlib.Path("waiting").touch()
    time.sleep(600)

import pathlib, time
print("welcome")
constant = 3
'''


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module in the current folder."""
    (tmp_path / "theirs_functions.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "theirs_functions"
    sys.modules.pop("theirs_functions", None)


def test_a_function_of_the_current_folder_is_a_metric(functions):
    found = scores(Python(f"{functions}:overlap"), ["a b", "c", ""], ["b a c", ""])
    np.testing.assert_array_equal(found, [[2, 0], [1, 0], [0, 0]])
    check_metric(Python(f"{functions}:overlap"))


def test_lists_give_what_pairs_give(functions):
    hyps, refs = ["a b", "c"], ["b a c", "", "c c"]
    np.testing.assert_array_equal(scores(Python(f"{functions}:in_lists", lists=True), hyps, refs),
                                  scores(Python(f"{functions}:overlap"), hyps, refs))


def test_the_source_is_a_third_argument_if_asked_for(functions):
    metric = Python(f"{functions}:with_source", source=True)
    np.testing.assert_array_equal(scores(metric, ["ab"], ["a", "abcd"], "12345"), [[6, 3]])
    with pytest.raises(minrisk.InputError, match="source"):
        minrisk.decode(["a"], metric=metric)


@pytest.mark.parametrize("lists", [False, True])
def test_a_function_may_judge_by_the_source_alone(functions, lists):
    """As a reward does: it gets hypothesis and source, in every strategy."""
    name = "in_lists" if lists else "overlap"
    metric = Python(f"{functions}:{name}", by_source=True, lists=lists)
    check_metric(metric)
    hyps, source = ["a b", "c", "a c d"], "d c a"
    assert minrisk.decode(hyps, source=source, metric=metric, strategy="rerank").utility.tolist() \
        == minrisk.decode(hyps, source=source, metric=metric).utility.tolist() == [1, 1, 3]
    best = minrisk.QualityThenMBR("chrf", metric, keep=1)
    assert minrisk.decode(hyps, source=source, strategy=best).text == "a c d"
    total = minrisk.decode(hyps, source=source, metric=minrisk.Combined((metric, "exact-match")))
    np.testing.assert_allclose(total.utility, [1 + 1 / 3, 1 + 1 / 3, 3 + 1 / 3])
    with pytest.raises(minrisk.InputError, match="rerank"):
        minrisk.Rerank(Python(f"{functions}:{name}"))
    with pytest.raises(minrisk.InputError, match="source"):
        minrisk.decode(hyps, metric=metric, strategy="rerank")


def test_a_program_may_judge_by_the_source_alone(tmp_path):
    (tmp_path / "program.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    own = json.loads(line)\n"
        "    assert own.keys() == {'hypothesis', 'source'}\n"
        "    print(len(own['hypothesis']) - len(own['source']), flush=True)\n")
    metric = minrisk.Command(f"{sys.executable} -I {tmp_path / 'program.py'}", by_source=True)
    ranking = minrisk.decode(["a", "abcd"], source="ab", metric=metric, strategy="rerank")
    assert ranking.utility.tolist() == [-1, 2]
    check_metric(metric)


def test_errors_are_negated(functions):
    assert scores(Python(f"{functions}:distance", error=True), ["abc"], ["a"]) == -2


@pytest.mark.parametrize(("function", "options", "message"), [
    ("theirs_functions:failing", {}, "failing .*KeyError: 'no such thing'"),
    ("theirs_functions:wordy", {}, "'good'"),
    ("theirs_functions:lost", {}, "nan"),
    ("theirs_functions:huge", {}, "1000"),
    ("theirs_functions:leaving", {}, "leaving .*SystemExit: 3"),
    ("theirs_functions:closing", {}, "closing .*GeneratorExit"),
    ("theirs_functions:short", {"lists": True}, "4 scores .* 1"),
    ("theirs_functions:nothing", {}, "'nothing'"),
    ("theirs_functions:constant", {}, "'constant'"),
    ("no_such_module:f", {}, "'no_such_module:f' .*ModuleNotFoundError"),
    ("theirs_functions", {}, "package.module:function"),
])
def test_a_function_that_is_none_or_fails_is_told(function, options, message, functions):
    with pytest.raises(minrisk.InputError, match=message):
        scores(Python(function, **options), ["a", "b"], ["a", "b"])


def test_a_function_is_named_on_the_command_line(functions, tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a b", "a", "c"]})
    result = run("decode", samples, "--metric", f"python:{functions}:overlap")
    assert result.code == 0, result.err
    assert result.records[0]["text"] == "a b"
    assert f"metric:python|metric.function:{functions}:overlap|" in result.err


def test_a_function_that_exits_costs_its_segment_and_no_other(functions, tmp_path):
    samples = write(tmp_path / "in.jsonl", *({"samples": [text, "x"]} for text in "abcb"))
    result = run("decode", samples, "--metric", f"python:{functions}:leaving", "--on-error", "skip")
    assert result.code == 3
    assert ["error" in record for record in result.records] == [False, True, False, True]


def test_what_a_function_prints_is_no_result(functions, tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "bb"]}, {"samples": ["ccc", "d"]})
    result = run("decode", samples, "--metric", f"python:{functions}:talking")
    assert [record["text"] for record in result.records] == ["bb", "ccc"]
    assert "welcome" in result.err
    assert "I am thinking" in result.err


@pytest.mark.parametrize("metric", ["chrf", "symmetric:edit", "python:theirs_functions:talking"])
def test_a_call_leaves_the_streams_and_signals_of_its_host_alone(metric, functions, monkeypatch):
    """Other threads of the host print meanwhile, and it handles its own Ctrl-C."""
    changes = []

    class Host(type(sys)):
        def __setattr__(self, name, value):
            changes.append(name)
            super().__setattr__(name, value)

    monkeypatch.setattr(signal, "signal", lambda *_: changes.append("signal"))
    sys.__class__ = Host
    try:
        minrisk.decode(["a b", "a"], metric=metric)
    finally:
        sys.__class__ = type(os)
    assert not {"stdout", "stderr", "signal"} & set(changes)


def test_ctrl_c_in_a_function_reaches_the_host(functions):
    with pytest.raises(KeyboardInterrupt):
        minrisk.decode(["a", "b"], metric=f"python:{functions}:interrupting")


def test_what_a_function_prints_is_no_score(functions, tmp_path):
    text = write(tmp_path / "a.txt", "a", "bb")
    result = run("score", text, "-r", text, "--metric", f"python:{functions}:talking", "-b")
    assert result.out.strip().replace(".", "").isdigit()
    assert "I am thinking" in result.err


def test_ctrl_c_in_a_function_is_no_failure_of_it(functions, tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "b"]})
    with spawn("decode", samples, "--metric", f"python:{functions}:waiting",
               "--on-error", "skip", cwd=tmp_path) as process:
        wait_for((tmp_path / "waiting").exists)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_plug_in_that_exits_when_it_is_imported_is_told(functions, monkeypatch):
    Path("leaving_plugin.py").write_text("print('hello'); raise SystemExit(5)")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setitem(METRICS.builtin, "leaving", "leaving_plugin:Metric")
    with pytest.raises(minrisk.InputError, match="SystemExit: 5"):
        METRICS.get("leaving")


PROGRAM = '''
import json, pathlib, sys
{before}
for count, line in enumerate(sys.stdin):
    pair = json.loads(line)
    {each}
    score = len(pair["hypothesis"]) * 10 + len(pair["reference"]) + len(pair.get("source", ""))
    print(json.dumps({answer}), flush=True)
'''


@pytest.fixture
def program(tmp_path):
    """A command with a program that answers, and does something else besides."""
    def make(each: str = "", before: str = "", answer: str = "score") -> str:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(each=each, before=before, answer=answer))
        return f"{sys.executable} -I {path}"

    return make


EXPECTED = [[11, 10], [21, 20], [1, 0]]


@pytest.mark.parametrize("answer", ["score", '{"score": score, "why": "ü"}'])
def test_a_program_answers_line_by_line(program, answer):
    metric = Command(program(answer=answer))
    np.testing.assert_array_equal(scores(metric, ["é", "bb", ""], ["\n", ""]), EXPECTED)
    np.testing.assert_array_equal(scores(metric, ["bb"], ["ccc"]), [[23]])


def test_a_program_keeps_the_contract(program):
    check_metric(Command(program(), source=True))


def test_many_pairs_do_not_fill_the_pipes(program):
    texts = ["x" * 300 for _ in range(60)]
    assert scores(Command(program()), texts, texts).shape == (60, 60)


def test_a_program_gets_the_source_if_asked_for(program):
    command = program()
    assert scores(Command(command, source=True), ["a"], [""], "src") == 13
    assert scores(Command(command), ["a"], [""], "src") == 10


def test_a_program_that_dies_is_started_again_where_it_stopped(program):
    command = program(each="if count == 2: sys.exit('tired')")
    np.testing.assert_array_equal(scores(Command(command), ["é", "bb", ""], ["c", ""]), EXPECTED)


def test_a_program_that_dies_at_once_is_given_up_with_its_last_words(program):
    with pytest.raises(minrisk.InputError, match=r"3 times.*; exit code 1, .*no model here"):
        scores(Command(program(before="sys.exit('no model here')")), ["a"], ["b"])


def test_a_program_that_is_silent_is_given_up_after_a_time():
    command = "sh -c 'echo busy >&2; exec sleep 600'"  # which starts at once
    with pytest.raises(minrisk.InputError, match="1 seconds"):
        scores(Command(command, timeout=1), ["a"], ["b"])


@pytest.mark.parametrize(("command", "message"), [
    ("no-such-program-at-all", "'no-such-program-at-all'"),
    ("'unbalanced", "No closing quotation"),
])
def test_a_program_that_is_not_there_is_told(command, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(Command(command), ["a"], ["b"])


@pytest.mark.parametrize("answer", ["'9' * 400", "'[' * 100_000"])
def test_an_answer_that_is_too_large_or_too_deep_is_told(program, answer):
    with pytest.raises(minrisk.InputError, match="number"):
        scores(Command(program(each=f"print({answer}, flush=True); continue")), ["a"], ["b"])


@pytest.mark.parametrize(("answer", "message"), [
    ("'good'", "'good'"), ('{"result": 1}', "got None"),
    ("[score]", r"got \[11\]"), ("float('nan')", "got nan")])
def test_an_answer_that_is_no_score_is_told(program, answer, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(Command(program(answer=answer)), ["a"], ["b"])


def test_an_answer_that_is_no_json_is_told(program):
    with pytest.raises(minrisk.InputError, match=r"(got|more lines .*) 'loading"):
        scores(Command(program(before="print('loading')")), ["a"], ["b"])


@pytest.mark.parametrize(("before", "answer"), [
    ("print(7)", "score"),  # a greeting that looks like a score, written with the first answer
    ("", '[score, print("0")][0]'),  # two lines for each pair
])
def test_surplus_lines_do_not_shift_the_scores(program, before, answer):
    with pytest.raises(minrisk.InputError, match=r"more lines than it was given pairs, '(7|0)"):
        scores(Command(program(before=before, answer=answer)), ["a", "bb"], ["c", "dd"])


def test_a_surplus_line_that_comes_later_is_found_by_the_next_to_ask(program, tmp_path):
    go = tmp_path / "go"
    metric = Command(program(before="import threading, time", each=f"""
    def late():
        while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)
        print(3, flush=True)
    threading.Thread(target=late, daemon=True).start()"""))
    assert scores(metric, ["a"], ["b"]) == 11
    go.touch()
    wait_for(_program(metric, os.getpid())._process._answers.qsize)
    with pytest.raises(minrisk.InputError, match=r"more lines than .* '3\\n' last"):
        scores(metric, ["a"], ["b"])


def test_a_program_that_ends_after_its_answers_is_started_again(program):
    metric = Command(program(each="if count: sys.exit()"))
    assert [scores(metric, ["a"], ["b"]).item() for _ in range(3)] == [11, 11, 11]


HANGING = '''
import os, pathlib, sys, time
pathlib.Path({started!r}).write_text(str(os.getpid()))
time.sleep(600)
pathlib.Path({started!r}).with_name("slept").touch()
'''


@pytest.fixture
def script(tmp_path):
    """A shell script whose child hangs, and the file in which that child says who it is."""
    started, child, shell = (tmp_path / name for name in ("started", "hang.py", "score.sh"))
    child.write_text(HANGING.format(started=str(started)))
    shell.write_text(f"#!/bin/sh\n{sys.executable} -I {child}\n")
    shell.chmod(0o755)
    return shell, started


def is_gone(started):
    """Whether the child ended; a zombie that nobody waited for did."""
    try:
        status = Path(f"/proc/{started.read_text()}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_a_script_that_hangs_is_given_up_with_its_children(script):
    shell, started = script
    with pytest.raises(minrisk.InputError, match="2 seconds"):
        scores(Command(str(shell), timeout=2), ["a"], ["b"])
    wait_for(lambda: is_gone(started))
    assert not started.with_name("slept").exists()  # it was ended, and not waited for


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_script_with_its_children(script, tmp_path, number, code):
    shell, started = script
    samples = write(tmp_path / "in.jsonl", {"samples": ["a", "b"]})
    with spawn("decode", samples, "--metric", f"command:{shell}") as process:
        wait_for(lambda: started.exists() and started.read_text())
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in err
    wait_for(lambda: is_gone(started))


def test_a_signal_while_a_script_starts_ends_it(script, monkeypatch):
    shell, started = script

    class Interrupted(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            wait_for(lambda: started.exists() and started.read_text())
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # the main thread handles it meanwhile

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        Program(str(shell), timeout=60, restarts=0).ask(["line"])
    wait_for(lambda: is_gone(started))


def test_children_of_a_script_end_with_the_interpreter(script, tmp_path):
    """One that answered, and left something behind that still runs."""
    shell, started = script
    background = shell.read_text().replace("hang.py", "hang.py &")
    shell.write_text(f"{background}while read line; do echo 1; done\n")
    code = ("from minrisk.metrics.user_code.command import Command; import pathlib, sys, time\n"
            "m = Command(sys.argv[1]); print(m.scores(m.features(['a']), m.features(['b'])))\n"
            "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)")
    done = subprocess.run([sys.executable, "-c", code, shell, started], capture_output=True,
                          timeout=60)
    assert done.stdout == b"[[1.]]\n", done.stderr
    wait_for(lambda: is_gone(started))


def test_a_child_that_left_the_session_does_not_hold_the_run(script):
    """It keeps the pipes open, but nobody waits for them."""
    shell, started = script
    shell.write_text(f"#!/bin/sh\nsetsid {shell.read_text().splitlines()[1]} &\n"
                     f"read line; while [ ! -s {started} ]; do sleep 0.05; done; echo 1; sleep 600")
    program = Program(str(shell), timeout=60, restarts=0)
    assert program.ask(["line"]) == ["1\n"]
    program.close()
    assert not is_gone(started)
    os.kill(int(started.read_text()), signal.SIGKILL)


def test_the_metric_that_ran_scripts_of_evaluate_says_what_to_use_instead():
    with pytest.raises(minrisk.InputError, match="python:module:"):
        METRICS.make("evaluate:overlap", run_code=True)
