"""`minrisk calibrate`, `minrisk.calibrate`, and what `--calibration` and `--max-error` do."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from xml.etree import ElementTree

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk._core.calibration import KIND

VOTE = ("--metric", "exact-match", "--metric.pattern", r"\d[\d.]*", "--metric.numbers")
METRIC = minrisk.ExactMatch(r"\d[\d.]*", numbers=True)


def problems(count: int = 60, seed: int = 0) -> list[dict[str, object]]:
    """Votes of 16 samples between 7 and 9: the more say 7, the more often it is right."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        votes = int(rng.integers(9, 17))
        samples = [f"it is {'7.0' if place % 2 else 7}" for place in range(votes)]
        found.append({"id": number, "samples": [*samples, *["it is 9"] * (16 - votes)],
                      "gold": 7 if rng.random() < (votes - 7) / 8 else 8})
    return found


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "samples.jsonl", *problems())


@pytest.fixture
def best(tmp_path, samples):
    run("decode", samples, *VOTE, "--confidence", "--uncertainty", "-o", tmp_path / "best.jsonl")
    return tmp_path / "best.jsonl"


@pytest.fixture
def calibration(tmp_path, best):
    run("calibrate", best, "-o", tmp_path / "c.json")
    return tmp_path / "c.json"


def test_the_command_and_the_call_find_the_same(best, samples):
    found = json.loads(run("calibrate", best, "--format", "json").out)
    results = minrisk.decode_corpus(str(samples), metric=METRIC, confidence=True, uncertainty=True)
    report = minrisk.calibrate(results)
    expected = report.as_json()
    ours, theirs = found.pop("signature"), expected.pop("signature")
    assert found == expected
    assert ours.startswith("strategy:standard|metric:exact-match|")
    assert theirs.startswith(ours.rpartition("|version")[0])
    assert found["signal"] == "confidence.probability"
    golds = [problem["gold"] for problem in problems()]
    assert found["report"]["right"] == np.mean([gold == 7 for gold in golds])


def test_gold_answers_may_be_given_apart(best):
    lines = [json.loads(line) for line in best.read_text().splitlines()]
    golds = [line.pop("gold") for line in lines]
    expected = minrisk.calibrate(str(best)).calibration.right
    assert minrisk.calibrate(lines, gold=golds).calibration.right == expected
    lists = [[gold, "never"] for gold in golds]
    assert minrisk.calibrate(lines, gold=lists).calibration.right == expected
    assert minrisk.calibrate(lines, verdict=[g == 7 for g in golds]).calibration.right == expected


def test_a_metric_compares_texts_with_gold_answers(best):
    plain = minrisk.calibrate(str(best)).calibration.right
    found = json.loads(run("calibrate", best, *VOTE, "--format", "json").out)
    assert tuple(found["right"]) == plain
    edits = run("calibrate", best, "--metric", "ter", "--threshold", "250", "--format", "json")
    assert tuple(json.loads(edits.out)["right"]) == plain  # "it is 7" against "7": two edits


def test_the_output_has_the_calibrated_probability(samples, calibration):
    lines = run("decode", samples, *VOTE, "--calibration", calibration).records
    made = minrisk.read_calibration(str(calibration))
    for line in lines:
        found = line["confidence"]
        assert found["calibrated"] == made.probability(found["probability"])
        assert 0 < found["calibrated"] < 1
    results = minrisk.decode_corpus(str(samples), metric=METRIC, calibration=calibration)
    assert [one.confidence.calibrated for one in results] == [
        line["confidence"]["calibrated"] for line in lines]


def test_what_is_below_the_threshold_is_withheld(samples, calibration):
    made = minrisk.read_calibration(str(calibration))
    threshold = made.threshold(0.25)
    lines = run("decode", samples, *VOTE, "--calibration", calibration, "--max-error",
                "0.25").records
    withheld = [line["text"] is None for line in lines]
    assert withheld == [line.get("abstained", False) for line in lines]
    assert withheld == [line["confidence"]["probability"] < threshold - 1e-9 for line in lines]
    assert True in withheld
    assert False in withheld
    results = minrisk.decode_corpus(str(samples), metric=METRIC, calibration=calibration,
                                    max_error=0.25)
    assert [one.abstained for one in results] == withheld


def test_a_signal_of_uncertainty_is_measured_for_it(tmp_path, best, samples):
    run("calibrate", best, "--signal", "uncertainty.entropy", "-o", tmp_path / "e.json")
    [line, *_] = run("decode", samples, *VOTE, "--calibration", tmp_path / "e.json").records
    made = minrisk.read_calibration(str(tmp_path / "e.json"))
    assert line["confidence"]["calibrated"] == made.probability(line["uncertainty"]["entropy"])


def test_columns_have_it_too(samples, calibration):
    done = run("decode", samples, *VOTE, "--calibration", calibration, "--format", "csv",
               "--confidence")
    head, first, *_ = done.out.splitlines()
    assert "confidence.calibrated" in head.split(",")
    assert first.split(",")[head.split(",").index("confidence.calibrated")]


def test_a_calibration_of_another_metric_is_refused(samples, calibration):
    done = run("decode", samples, "--metric", "chrf", "--calibration", calibration)
    assert "strategy:standard|metric:exact-match" in done.err
    done = run("decode", samples, *VOTE[:-1], "--calibration", calibration)


def test_a_strategy_around_another_is_calibrated_as_that_one(calibration):
    made = minrisk.read_calibration(str(calibration))
    plain = minrisk.Standard(METRIC)
    both = minrisk.Uncertain(minrisk.Confident(plain))
    texts = problems(1)[0]["samples"]
    one, other = (minrisk.decode(texts, strategy=minrisk.Calibrated(strategy, made, 0.3))
                  for strategy in (plain, both))
    assert one.confidence == other.confidence
    assert other.uncertainty is not None


def test_an_error_that_cannot_be_shown_is_refused_at_once(samples, calibration):
    done = run("decode", samples, *VOTE, "--calibration", calibration, "--max-error", "0.001")
    assert " 693 " in done.err
    assert "raise --max-error" in done.err
    assert not done.out


def test_a_wanted_error_needs_a_calibration(samples):
    assert "--calibration" in run("decode", samples, "--max-error", "0.1").err


def test_a_segment_without_an_answer_is_never_sure(tmp_path, calibration):
    path = write(tmp_path / "s.jsonl", {"samples": ["no", "idea"]})
    [line] = run("decode", path, *VOTE, "--calibration", calibration, "--max-error", "0.3",
                 "-q").records
    assert line["abstained"]
    assert line["confidence"]["probability"] is None
    made = minrisk.read_calibration(str(calibration))
    assert line["confidence"]["calibrated"] == made.probability(0.0)


def test_segments_that_failed_are_left_out(tmp_path):
    lines = [*problems(), {"samples": [], "gold": 7}]
    results = list(minrisk.decode_corpus(lines, metric=METRIC, confidence=True))
    assert minrisk.calibrate(results).left_out == 1


def test_lines_whose_making_is_not_known_are_told(tmp_path, best):
    alone = tmp_path / "alone.jsonl"
    alone.write_bytes(best.read_bytes())
    done = run("calibrate", alone, "-o", tmp_path / "c.json")
    assert "does not say" in done.err
    assert minrisk.read_calibration(str(tmp_path / "c.json")).signature is None


def test_choices_that_were_made_in_several_ways_are_refused(samples):
    results = [*minrisk.decode_corpus(problems(), metric=METRIC),
               *minrisk.decode_corpus(problems(), metric="chrf")]
    with pytest.raises(minrisk.InputError, match="separately"):
        minrisk.calibrate(results)


@pytest.mark.parametrize(("changes", "options", "message"), [
    ({"gold": None}, {}, "gold null"),
    ({"gold": {}}, {}, "gold {}"),
    ({"gold": " "}, {}, 'gold " "'),
    ({"abstained": True, "text": None}, {}, "abstained"),
    ({"utility": "high"}, {}, 'utility "high"'),
    ({"verdict": "yes"}, {"verdict": "verdict"}, 'verdict "yes"'),
    ({}, {"verdict": [True]}, "verdict has 1 values"),
    ({}, {"metric": "chrf"}, "threshold="),
    ({}, {"level": 1.0}, "level"),
])
def test_what_cannot_be_used_is_told(best, changes, options, message):
    lines = [json.loads(line) for line in best.read_text().splitlines()]
    lines = [line | {"verdict": True} for line in lines]
    lines[3] |= changes
    with pytest.raises(minrisk.InputError) as failure:
        minrisk.calibrate(lines, **options)
    assert message in str(failure.value)


def test_what_is_no_result_is_told():
    with pytest.raises(minrisk.InputError, match="decode_corpus"):
        minrisk.calibrate([["a", "b"]])


def test_samples_that_were_not_decoded_are_refused(samples):
    done = run("calibrate", samples)
    assert done.code == 2
    assert "minrisk decode" in done.err


def test_a_file_is_not_replaced_unless_told(best, calibration):
    assert "exists" in run("calibrate", best, "-o", calibration).err
    assert run("calibrate", best, "-o", calibration, "--overwrite").out
    assert json.loads(calibration.read_text())["kind"] == KIND
    assert "output is the input" in run("calibrate", best, "-o", best, "--overwrite").err


def test_a_calibration_is_given_as_an_object(calibration):
    with pytest.raises(minrisk.InputError, match="read_calibration"):
        minrisk.Calibrated(minrisk.Standard(METRIC), str(calibration))
    made = minrisk.read_calibration(str(calibration))
    with pytest.raises(minrisk.InputError, match="max_error"):
        minrisk.Calibrated(minrisk.Standard(METRIC), made, 1.0)
    unknown = replace(made, signature=None)
    assert minrisk.Calibrated(minrisk.Standard("chrf"), unknown).name == "standard"


def test_answers_to_prompts_are_calibrated_too(calibration):
    votes = {"sure": 16, "torn": 9}

    def sampler(prompt, n):
        return ["it is 7"] * votes[prompt] + ["it is 9"] * (n - votes[prompt])

    sure, torn = minrisk.answer(["sure", "torn"], 16, sampler=sampler, metric=METRIC,
                                calibration=calibration, max_error=0.3)
    assert (sure.answer, sure.abstained, torn.abstained) == ("7", False, True)
    assert sure.confidence.calibrated > torn.confidence.calibrated
    assert torn.text is None


def test_a_run_is_not_resumed_with_another_calibration(tmp_path, samples, best, calibration):
    args = ("decode", samples, *VOTE, "--calibration", calibration, "-o", tmp_path / "c.jsonl")
    assert run(*args).code == 0
    assert run(*args, "--resume").code == 0
    run("calibrate", best, "--signal", "utility", "-o", calibration, "--overwrite")
    assert "cannot resume" in run(*args, "--resume").err


def test_the_page_has_figures_and_all_signals_and_runs_nothing(tmp_path, best):
    page = tmp_path / "page.html"
    hostile = best.rename(tmp_path / "<b>best&.jsonl")
    found = json.loads(run("calibrate", hostile, "--format", "json", "--report", page).out)
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;b&gt;best&amp;.jsonl" in html
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src &#x27;sha256-{digest}&#x27;" in html
    assert "style=" not in html  # which the policy forbids
    for signal in found["report"]["signals"]:
        assert f'<td class="number">{signal["name"]}</td>' in html
    assert html.count("<circle") == len(found["report"]["bins"])
    tree = ElementTree.fromstring("<all>" + "".join(
        re.findall(r"<svg.*?</svg>", html, re.DOTALL)) + "</all>")
    numbers = [float(part) for line in tree.iter("polyline")
               for part in re.split("[ ,]", line.get("points"))]
    assert numbers
    assert all(0 <= number <= 360 for number in numbers)
