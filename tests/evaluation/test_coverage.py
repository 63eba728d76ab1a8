"""Coverage beside consensus: one sample, the choice, and any of k samples, by gold answers."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest

import minrisk
from commands import read, run, write
from minrisk.evaluation.coverage import Coverage, golds_of, pass_at_k, summarised
from report_pages import page_data
from tolerance import assert_close

VOTE = ("--metric", "exact-match", "--metric.pattern", r"\d+")
SEGMENTS = [
    {"samples": ["7", "it is 7", "8", "no idea"], "gold": 7},
    {"samples": ["7", "8", "it is 8"], "counts": [1, 2, 1], "gold": ["7", "seven"]},
    {"samples": ["5", "5", "6", "6"], "gold": "9"},
]
RIGHT, CHOSEN = (2, 1, 0), (True, False, False)


@pytest.mark.parametrize("right", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_any_of_k_is_a_count_of_all_subsets(right, k):
    subsets = list(combinations(range(5), k))
    found = np.mean([any(place < right for place in subset) for subset in subsets])
    assert_close(pass_at_k(5, right, k), found)


def test_the_estimate_has_no_bias():
    rng = np.random.default_rng(0)
    drawn = rng.random((20_000, 6)) < 0.3
    found = np.mean([pass_at_k(6, count, 3) for count in drawn.sum(axis=1).tolist()])
    assert abs(found - (1 - 0.7**3)) < 0.01


def test_no_segments_have_no_summary():
    assert summarised([]) is None


def test_a_summary_is_over_the_samples_that_all_segments_have():
    found = summarised([Coverage(6, 3, True), Coverage(3, 0, False)])
    assert list(found.any_of) == [2, 3]
    assert_close([found.one.value, found.chosen.value], [0.25, 0.5])
    assert_close(found.any_of[2].value, pass_at_k(6, 3, 2) / 2)
    assert list(summarised([Coverage(1, 1, True)]).any_of) == []


@pytest.mark.parametrize(("value", "golds"), [
    ("7", ["7"]), (7, ["7"]), ([7, "seven"], ["7", "seven"]), (None, None), ([], None),
    ({"a": 1}, None), ([None], None)])
def test_gold_answers_are_texts_or_numbers(value, golds):
    assert golds_of(value) == golds


def expected(k):
    return np.mean([pass_at_k(4, right, k) for right in RIGHT])


def test_validate_says_what_a_better_choice_or_a_better_model_would_bring(tmp_path):
    found = minrisk.validate(SEGMENTS, minrisk.ExactMatch(r"\d+"), strategies=["aggregate"])
    coverage = found.as_json()["coverage"]
    assert_close(coverage["one"]["value"], expected(1))
    assert_close(coverage["chosen"]["value"], np.mean(CHOSEN))
    assert_close(coverage["any_of"][4]["value"], expected(4))
    assert_close(coverage["any_of"][2]["value"], expected(2))
    assert [line.split()[:3] for line in str(found).splitlines()[-4:]] == [
        ["one", "sample", "25.0%"], ["the", "choice", "33.3%"], ["any", "of", "2"],
        ["any", "of", "4"]]


def test_results_of_validate_are_read_again_with_and_without_it(tmp_path):
    path, results = write(tmp_path / "s.jsonl", *SEGMENTS), tmp_path / "v.jsonl"
    args = ("validate", path, *VOTE, "--strategy", "aggregate", "--format", "json", "-o", results)
    first = json.loads(run(*args).out)["coverage"]
    assert json.loads(run(*args, "--resume").out)["coverage"] == first
    named = run("validate", path, *VOTE, "--strategy", "aggregate", "--gold", "nothing", "--format",
                "json")
    assert "coverage" not in json.loads(named.out)
    assert all("coverage" in line for line in read(results.read_text()))
    without = [{name: value for name, value in line.items() if name != "coverage"}
               for line in read(results.read_text())]
    old = write(tmp_path / "old.jsonl", *without)
    page = tmp_path / "r.html"
    assert run("inspect", path, *VOTE, "--validation", old, "-o", page, "-q").code == 0


def test_graded_metrics_have_none():
    found = minrisk.validate(SEGMENTS, "chrf", strategies=["aggregate"])
    assert "coverage" not in found.as_json()


@pytest.fixture
def answers(tmp_path):
    results = minrisk.decode_corpus(SEGMENTS, metric=minrisk.ExactMatch(r"\d+"))
    return write(tmp_path / "a.jsonl", *(result.as_record() for result in results))


def test_score_has_one_sample_and_any_of_k_beside_the_choice(answers):
    found = json.loads(run("score", answers, *VOTE, "--gold", "gold").out)
    shares = {line["system"]: line["exact-match"]["score"] for line in found}
    assert list(shares) == [str(answers), *(f"{answers}: {name}" for name in (
        "one sample", "any of 2", "any of 4"))]
    assert_close(list(shares.values()), [np.mean(CHOSEN), expected(1), expected(2), expected(4)])


def test_samples_that_were_drawn_without_a_text_are_wrong(tmp_path):
    line = {"text": "7", "samples": ["7"], "counts": [2], "drawn": 4, "gold": 7}
    path = write(tmp_path / "a.jsonl", line)
    found = json.loads(run("score", path, *VOTE, "--gold", "gold").out)
    assert [one["exact-match"]["score"] for one in found] == [1, 0.5, pass_at_k(4, 2, 2), 1]


def test_an_output_without_samples_is_scored_by_its_gold_answers(tmp_path):
    lines = [{"text": "it is 7", "gold": 7}, {"text": "8", "gold": [7, 9]}]
    found = run("score", write(tmp_path / "d.jsonl", *lines), *VOTE, "--gold", "gold")
    assert json.loads(found.out)["score"] == 0.5


def test_segments_that_failed_in_a_system_are_left_out_of_all(tmp_path):
    good = [{"text": text, "gold": 7, "samples": ["7", "8"], "models": ["a", "b"]}
            for text in ("7", "8", "7")]
    fails = {"id": "x", "error": "x.jsonl:2: no samples"}
    ours = write(tmp_path / "a.jsonl", good[0], fails, *good[1:])
    theirs = write(tmp_path / "b.jsonl", fails, *good)
    args = (*VOTE, "--gold", "gold", "--ablation", "exact-match")
    result = run("score", ours, theirs, *args)
    assert "2 segments" in result.err
    left = [write(tmp_path / name, *good[1:]) for name in ("c.jsonl", "d.jsonl")]
    found, wanted = (
        [line["exact-match"]["score"] for line in json.loads(out)]
        for out in (result.out, run("score", *left, *args).out))
    assert found == wanted
    assert "segments" not in run("score", ours, theirs, *args, "-q").err


@pytest.mark.parametrize(("line", "message"), [
    ({"text": "7"}, "gold null"),
    ({"text": 7, "gold": 7}, "text 7"),
    ({"text": "7", "gold": 7, "samples": ["7"], "counts": [1, 2]}, "counts"),
])
def test_lines_that_lack_something_are_told(tmp_path, line, message):
    path = write(tmp_path / "d.jsonl", {"text": "7", "gold": 7}, line)
    assert message in run("score", path, *VOTE, "--gold", "gold").err


def test_gold_answers_are_in_one_place(answers):
    done = run("score", answers, *VOTE, "--gold", "gold", "-r", answers)
    assert "--gold" in done.err


def test_the_page_has_whether_any_sample_is_right(tmp_path):
    lines = [{**segment, "gold": str(np.ravel(segment["gold"])[0])} for segment in SEGMENTS]
    page = tmp_path / "r.html"
    run("inspect", write(tmp_path / "s.jsonl", *lines), *VOTE, "--reference-field", "gold", "-o",
        page, "-q")
    found = page_data(page.read_text(encoding="utf-8")).index["systems"]["by_reference"]
    assert found["choice"]["value"] == round(np.mean(CHOSEN), 5)
    assert found["any right"]["value"] == round(expected(4), 5)
