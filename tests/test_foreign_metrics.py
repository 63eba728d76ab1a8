"""Functions, programs and scripts of somebody else's as metrics."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.metrics.command import Command
from minrisk.metrics.evaluate import Evaluate
from minrisk.metrics.python import Python
from minrisk.testing import check_metric

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

constant = 3
'''


def scores(metric, hyps, refs, source=None):
    return metric.scores(metric.features(hyps), metric.features(refs),
                         None if source is None else metric.features([source]))


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
    with pytest.raises(minrisk.InputError, match="needs the source"):
        minrisk.decode(["a"], metric=metric)


def test_errors_are_negated(functions):
    assert scores(Python(f"{functions}:distance", error=True), ["abc"], ["a"]) == -2


@pytest.mark.parametrize(("function", "options", "message"), [
    ("theirs_functions:failing", {}, "failing failed: KeyError: 'no such thing'"),
    ("theirs_functions:wordy", {}, "returned 'good'; a finite number is wanted"),
    ("theirs_functions:lost", {}, "returned nan; a finite number"),
    ("theirs_functions:short", {"lists": True}, "returned 1 scores; expected 4"),
    ("theirs_functions:nothing", {}, "module 'theirs_functions' has no function 'nothing'"),
    ("theirs_functions:constant", {}, "has no function 'constant'"),
    ("no_such_module:f", {}, "'no_such_module:f' cannot be imported: No module named"),
    ("theirs_functions", {}, "wanted package.module:function"),
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
    with pytest.raises(minrisk.InputError, match=r"ended without an answer, 3 times; "
                                                 r"exit code 1, standard error: .*no model here"):
        scores(Command(program(before="sys.exit('no model here')")), ["a"], ["b"])


def test_a_program_that_is_silent_is_given_up_after_a_time(program):
    command = program(before="import time; print('busy', file=sys.stderr, flush=True)",
                      each="time.sleep(60)")
    with pytest.raises(minrisk.InputError, match=r"no answer for 1 seconds; .*busy"):
        scores(Command(command, timeout=1), ["a"], ["b"])


@pytest.mark.parametrize(("command", "message"), [
    ("no-such-program-at-all", "'no-such-program-at-all' cannot be started"),
    ("'unbalanced", "cannot be started: No closing quotation"),
])
def test_a_program_that_is_not_there_is_told(command, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(Command(command), ["a"], ["b"])


@pytest.mark.parametrize(("answer", "message"), [
    ("'good'", "returned 'good'; a finite number"), ('{"result": 1}', "returned None"),
    ("[score]", r"returned \[11\]"), ("float('nan')", "returned nan")])
def test_an_answer_that_is_no_score_is_told(program, answer, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(Command(program(answer=answer)), ["a"], ["b"])


def test_an_answer_that_is_no_json_is_told(program):
    with pytest.raises(minrisk.InputError, match="answered 'loading"):
        scores(Command(program(before="print('loading')")), ["a"], ["b"])


@pytest.mark.parametrize("options", [{"command": " "}, {"command": "cat", "timeout": 0},
                                     {"command": "cat", "restarts": -1}])
def test_options_of_a_program_that_make_no_sense_are_refused(options):
    with pytest.raises(minrisk.InputError, match="command: "):
        Command(**options)


SCRIPT = '''
import datasets
import evaluate

class Overlap(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(description="", citation="", inputs_description="",
                                   features=features)

    def _compute(self, predictions, references):
        each = [float(len(set(p) & set(r))) for p, r in zip(predictions, references)]
        return {"mean": sum(each) / len(each), "each": each}
'''


def test_a_script_is_not_run_without_consent():
    with pytest.raises(minrisk.InputError, match=r"is run on this machine; .*--metric.run-code"):
        Evaluate("somewhere")


def test_without_evaluate_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)
    with pytest.raises(minrisk.MissingExtra, match=r"pip install 'minrisk\[evaluate\]'"):
        scores(Evaluate("nowhere", run_code=True), ["a"], ["b"])


@pytest.fixture
def script(tmp_path) -> str:
    pytest.importorskip("evaluate", reason="needs evaluate, which is no light package")
    folder = tmp_path / "overlap"
    folder.mkdir()
    (folder / "overlap.py").write_text(SCRIPT)
    return str(folder)


def test_a_script_of_evaluate_is_a_metric(script):
    hyps, refs = ["ab", "c"], ["abc", "d"]
    pairs = Evaluate(script, run_code=True, result="mean")
    np.testing.assert_array_equal(scores(pairs, hyps, refs), [[2, 0], [1, 0]])
    lists = Evaluate(script, run_code=True, result="each", lists=True)
    np.testing.assert_array_equal(scores(lists, hyps, refs), [[2, 0], [1, 0]])
    with pytest.raises(minrisk.InputError, match=r"returned mean, each; choose one with"):
        scores(Evaluate(script, run_code=True), hyps, refs)


def test_a_folder_without_a_script_is_told(tmp_path):
    pytest.importorskip("evaluate", reason="needs evaluate, which is no light package")
    with pytest.raises(minrisk.InputError, match="cannot be loaded"):
        scores(Evaluate(str(tmp_path / "nothing"), run_code=True), ["a"], ["b"])
