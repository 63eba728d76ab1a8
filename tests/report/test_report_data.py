"""The data of the page: what is in it, and that nothing of it can act."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.io.store import write_whole
from minrisk.report import page
from report_pages import PageData, page_data
from small_metrics import Median

SAMPLES = ["the cat sat", "the cat sat.", "a cat sat", "no idea", "the cat sat", "the cat sat"]
LOGPROBS = [-4.0, -3.0, -5.0, -9.0, -4.0, -4.0]
RECORDS = [
    {"id": "one", "source": "die Katze saß", "samples": SAMPLES, "logprobs": LOGPROBS,
     "reference": "the cat sat down", "beam5": "the cat sits"},
    {"id": "two", "source": "Hunde", "samples": ["dogs", "dogs", "a dog"],
     "reference": ["dogs", "hounds"], "beam5": "dogs"},
]


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "samples.jsonl", *RECORDS)


def inspected(*args: object, code: int = 0) -> str:
    done = run("inspect", *args, "-q")
    assert done.code == code, done.err
    assert ("segments failed" in done.err) if code else not done.err
    return done.out


def test_the_signature_of_the_page_says_how_references_weigh(tmp_path):
    samples = write(tmp_path / "samples.jsonl", RECORDS[0])
    inspected(samples, "-o", tmp_path / "page.html", "--weights", "logprobs")
    page = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "weights:logprobs" in json.dumps(page.index)


def assert_shown(found, expected) -> None:
    """Equal in the digits that the page has."""
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def data_of(path) -> PageData:
    return page_data(path.read_text(encoding="utf-8"))


def test_a_page_says_what_decode_says(samples, tmp_path):
    inspected(samples, "-o", tmp_path / "report.html")
    decoded = run("decode", samples, "-q").records
    found = data_of(tmp_path / "report.html")
    assert found.column("id") == ["one", "two"]
    assert found.column("text") == [line["text"] for line in decoded]
    assert_shown(found.column("utility"), [line["utility"] for line in decoded])


def test_equal_texts_are_in_it_once_with_their_counts(samples):
    found = page_data(minrisk.inspect(str(samples)).html)
    first = found.details[0]
    assert first["texts"][0] == "the cat sat"
    assert sorted(first["texts"]) == sorted(set(SAMPLES))
    assert first["counts"][0] == 3
    assert (found.column("distinct"), found.column("samples")) == ([4, 2], [6, 3])


def test_counts_are_repetitions():
    counted = minrisk.inspect([{"samples": ["a b", "c d"], "counts": [3, 1]}])
    repeated = minrisk.inspect([["a b", "c d", "a b", "a b"]])
    assert page_data(counted.html).details == page_data(repeated.html).details


def test_the_best_the_worst_and_the_most_probable_are_shown():
    texts = [f"the cat sat {n}" for n in range(40)] + ["no idea"]
    logprobs = [-float(n) for n in range(41, 0, -1)]
    record = {"samples": texts, "logprobs": logprobs[::-1]}
    for show in (1, 2, 3, 8):
        shown = page_data(minrisk.inspect([record], show=show).html).details[0]
        assert len(shown["texts"]) == show
        assert shown["ranks"] == sorted(shown["ranks"])
        assert shown["ranks"][0] == 0
        if show > 1:
            assert shown["texts"][-1] == "no idea"
        if show > 2:
            assert max(shown["logprobs"]) == -1.0


def test_the_matrix_holds_the_scores_of_the_shown(samples):
    details = page_data(minrisk.inspect(str(samples)).html).details[0]
    texts = [details["texts"][n] for n in details["compared"]]
    chrf = minrisk.ChrF()
    expected = chrf.scores(chrf.features(texts), chrf.features(texts))
    assert_shown(np.reshape(details["matrix"], expected.shape), expected)
    assert_shown(details["support"][1], expected[0, 1])


def test_the_parts_of_the_utility_add_up(samples):
    found = page_data(minrisk.inspect(str(samples)).html)
    for details, utility in zip(found.details, found.column("utility"), strict=True):
        assert_shown(sum(details["parts"]), utility)
        assert_shown(sum(mass for _, mass, _ in details["clusters"]), 1.0)


def test_systems_are_compared_by_utility_and_by_references(samples, tmp_path):
    write(tmp_path / "other.txt", "a cat", "dogs")
    write(tmp_path / "decoded.jsonl", {"text": "the cat"}, {"text": "dog"})
    inspected(samples, "--against", f"other={tmp_path / 'other.txt'}", "--against",
              tmp_path / "decoded.jsonl", "-o", tmp_path / "report.html")
    systems = data_of(tmp_path / "report.html").index["systems"]
    assert systems["names"] == ["choice", "one sample", "most probable", "beam5", "other",
                                "decoded.jsonl"]
    assert systems["same"][systems["names"].index("other")] == [0, 1]
    score = minrisk.score(["the cat sat", "dogs"], [["the cat sat down"], ["dogs", "hounds"]])
    assert_shown(systems["by_reference"]["choice"]["value"], score.value)
    assert systems["by_utility"]["other"]["p"] is not None
    assert "most probable" not in systems["by_utility"]  # the second segment has none


def test_a_page_names_the_systems_that_its_metric_chose(samples, tmp_path):
    for metric in ("chrf", "bleu"):
        run("decode", samples, "-q", "--metric", metric, "-o", tmp_path / f"{metric}.jsonl")
    arguments = ["inspect", samples, "--metric", "chrf+ter", "-o", tmp_path / "report.html"]
    for metric in ("chrf", "bleu"):
        arguments += ["--against", tmp_path / f"{metric}.jsonl"]
    done = run(*arguments)
    systems = data_of(tmp_path / "report.html").index["systems"]
    assert systems["biased"] == {"choice": ["chrf", "ter"], "chrf.jsonl": ["chrf"]}
    assert "chosen by chrf and ter" in done.err
    assert "chrf.jsonl was chosen by chrf" in done.err
    assert "bleu.jsonl was chosen" not in done.err


def test_without_human_references_no_system_is_overestimated():
    page = page_data(minrisk.inspect([{"samples": SAMPLES}]).html)
    assert page.index["systems"]["biased"] == {}


def test_the_utility_of_an_output_is_its_score_against_all_samples(samples):
    systems = page_data(minrisk.inspect(str(samples)).html).index["systems"]
    chrf = minrisk.ChrF()
    expected = chrf.scores(chrf.features(["the cat sits"]), chrf.features(SAMPLES)).mean()
    assert_shown(systems["utilities"][systems["names"].index("beam5")][0], expected)


@pytest.mark.parametrize(("lines", "problem"), [
    (["one line"], "more segments"), (["1", "2", "3"], "2 segments")])
def test_outputs_of_other_segments_end_the_run(samples, tmp_path, lines, problem):
    write(tmp_path / "other.txt", *lines)
    done = run("inspect", samples, "--against", tmp_path / "other.txt", "-o", tmp_path / "r.html")
    assert done.code == 2
    assert problem in done.err
    assert not (tmp_path / "r.html").exists()


def test_failed_segments_keep_their_place_and_say_why(tmp_path):
    path = write(tmp_path / "s.jsonl", RECORDS[0], {"id": "bad"}, RECORDS[1])
    inspected(path, "-o", tmp_path / "r.html", code=3)
    found = data_of(tmp_path / "r.html")
    assert found.column("id") == ["one", "bad", "two"]
    assert "s.jsonl:2: " in found.column("error")[1]
    assert found.details[1] == {}


def test_log_probabilities_can_be_the_quality_of_a_strategy(tmp_path):
    path = write(tmp_path / "s.jsonl", RECORDS[0])
    method = ("--strategy", "quality-then-mbr", "--quality", "logprob", "--keep", "2")
    inspected(path, "-o", tmp_path / "r.html", *method)
    [best] = run("decode", path, *method, "-q").records
    assert data_of(tmp_path / "r.html").column("text") == [best["text"]]


@pytest.mark.parametrize("strategy", ["standard", "rerank"])
def test_a_metric_that_compares_no_texts_shows_the_quality_of_each_sample(tmp_path, strategy):
    path = write(tmp_path / "s.jsonl", RECORDS[0])
    inspected(path, "-o", tmp_path / "r.html", "--metric", "logprob", "--strategy", strategy)
    found = data_of(tmp_path / "r.html")
    assert found.index["compares"] is False
    assert (found.column("text"), found.column("utility")) == (["the cat sat."], [-3])
    assert (found.column("margin"), found.column("confidence")) == ([1], [None])
    details = found.details[0]
    assert details["utilities"] == details["logprobs"] == [-3, -4, -5, -9]
    assert (details["compared"], details["matrix"]) == ([], [])
    assert not details.keys() & {"support", "parts", "references"}
    systems = found.index["systems"]
    utilities = dict(zip(systems["names"], systems["utilities"], strict=True))
    assert utilities["choice"] == utilities["most probable"] == [-3]
    assert utilities["beam5"] == [None]  # which nobody sampled
    assert set(systems["by_utility"]) == {"choice", "one sample", "most probable"}


def length(hypothesis: str, source: str) -> float:
    return float(len(hypothesis))


def test_a_reward_is_shown_of_other_outputs_too():
    found = page_data(minrisk.inspect(RECORDS, metric=minrisk.make_metric(
        f"python:{__name__}:length", by_source=True)).html)
    assert (found.index["compares"], found.details[0]["matrix"]) == (False, [])
    systems = found.index["systems"]
    assert systems["utilities"][systems["names"].index("beam5")] == [12, 4]


@pytest.mark.parametrize("further", [{}, {"references": ["the cat"], "logprobs": [-1.0],
                                          "sample_logprobs": LOGPROBS}])
def test_a_sum_with_log_probabilities_compares_texts(further):
    record = RECORDS[0] | further
    found = page_data(minrisk.inspect([record], metric="chrf+logprob").html)
    best = minrisk.decode(SAMPLES, further.get("references"), logprobs=LOGPROBS,
                          metric="chrf+logprob")
    assert_shown(found.column("utility"), best.utility[best.best])
    details = found.details[0]
    assert (found.index["compares"], len(details["matrix"])) == (True, 16)
    assert details["logprobs"][details["texts"].index("no idea")] == -9


def test_outcomes_are_compared_in_the_place_of_texts():
    record = {"samples": ["print(4)", "print(2 + 2)", "print(5)"], "outcomes": ["4", "4", "5"],
              "beam": "print(3)"}
    found = page_data(minrisk.inspect([record], metric="outcomes").html)
    systems = found.index["systems"]
    utilities = dict(zip(systems["names"], systems["utilities"], strict=True))
    assert utilities["choice"] == found.column("utility") == [0.66667]
    assert utilities["beam"] == [None]  # whose outcome nobody knows


def test_log_probabilities_of_other_samples_are_an_error(tmp_path):
    path = write(tmp_path / "s.jsonl", RECORDS[0], RECORDS[0] | {"logprobs": [-1.0]})
    inspected(path, "-o", tmp_path / "r.html", code=3)
    assert "expected 6 logprobs (one per hypothesis), got 1" in data_of(
        tmp_path / "r.html").column("error")[1]


def test_a_page_is_the_same_with_workers_and_in_python(samples, tmp_path):
    inspected(samples, "-o", tmp_path / "one.html")
    inspected(samples, "-o", tmp_path / "two.html", "--workers", 2)
    one = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert (tmp_path / "two.html").read_text(encoding="utf-8") == one
    assert minrisk.inspect(str(samples)).html == one
    assert page_data(minrisk.inspect(RECORDS).html).details == page_data(one).details


def test_errors_of_a_metric_are_told_apart_from_scores():
    assert page_data(minrisk.inspect([SAMPLES], metric="ter").html).index["is_error"] is True


def test_the_votes_of_a_segment_are_those_of_decode():
    texts = ["it is 7", "7", "so 8", "no idea", "it is 7"]
    for record in ({"samples": texts}, {"samples": texts[:4], "counts": [2, 1, 1, 1]},
                   {"samples": texts, "references": ["7", "8", "8", "none"]}):
        metric = minrisk.ExactMatch(r"\d+")
        found = page_data(minrisk.inspect([record], metric=metric).html)
        [told] = minrisk.decode_corpus([record], metric=metric)
        assert found.index["is_vote"] is True
        assert found.column("answer") == [told.details["answer"]]
        details = found.details[0]
        assert [answer for answer, *_ in details["votes"]] == [*told.details["votes"]]
        assert_shown([share for _, share, _ in details["votes"]], [*told.details["votes"].values()])
        counts = {answer: count for answer, _, count in details["votes"]}
        assert counts == {"7": 3, "8": 1}
        assert [metric.answer(text) for text in details["texts"]] == details["answers"]
    assert page_data(minrisk.inspect([SAMPLES]).html).column("answer") == [None]


def test_what_answer_dropped_is_shown_and_not_compared():
    """Of the output of `answer`, whose truncated samples were no candidates."""
    record = {"samples": ["it is 8", "so 7", "it is"], "counts": [3, 1, 1], "dropped": 4,
              "finish_reasons": ["length", "stop", "length"], "drawn": 5, "text": "so 7"}
    found = page_data(minrisk.inspect([record]).html)
    assert (found.column("text"), found.column("samples"), found.column("truncated")) == (
        ["so 7"], [5], [4])
    assert found.details[0]["others"] == [["it is 8", 3, "length"], ["it is", 1, "length"]]
    plain = page_data(minrisk.inspect([record | {"dropped": 0}]).html)
    assert plain.column("text") == ["it is 8"]  # as `decode` chooses
    assert plain.details[0]["finish"].count("length") == 2


@pytest.mark.parametrize("further", [
    {"finish_reasons": "stop"}, {"finish_reasons": [1, 2, 3]}, {"finish_reasons": ["stop"]},
    {"uncompared": [1]}, {"uncompared": {"samples": ["a"], "counts": ["b"]}},
    {"seconds": {"request": "long"}, "usage": [], "time": 3, "model": {}},
    {"status": 200, "error": "none", "seconds": {}}, {"passed_through": 1},
    {"dropped": 3, "finish_reasons": ["length", 5, None]}])
def test_fields_of_other_tools_do_no_harm(further):
    record = {"samples": ["dogs", "dogs", "a dog"]}
    found = page_data(minrisk.inspect([record | further]).html)
    assert (found.column("text"), found.column("samples"), found.column("truncated")) == (
        ["dogs"], [3], [0])


def test_separate_references_are_shown_with_their_weight():
    record = {"samples": ["a cat", "the cat sat"], "references": ["the cat sat down", "a cat sat"],
              "weights": [3, 1]}
    details = page_data(minrisk.inspect([record]).html).details[0]
    assert [[text, mass] for text, mass, _ in details["references"]] == [
        ["the cat sat down", 0.75], ["a cat sat", 0.25]]


def test_a_strategy_that_leaves_utilities_out_can_be_inspected():
    found = page_data(minrisk.inspect([SAMPLES], strategy="aggregate-to-fine", keep=1).html)
    assert found.details[0]["utilities"].count(None) == 3
    assert found.column("entropy")[0] > 0


def test_validation_becomes_a_table_of_strategies(samples, tmp_path):
    run("validate", samples, "-o", tmp_path / "v.jsonl", "-q")
    inspected(samples, "--validation", tmp_path / "v.jsonl", "-o", tmp_path / "r.html")
    found = data_of(tmp_path / "r.html").index["validation"]
    assert found["segments"] == 2
    assert found["trials"][0]["strategy"] == "standard"
    assert found["recommended"] in [trial["label"] for trial in found["trials"]]


def test_what_is_no_validation_is_refused(samples, tmp_path):
    done = run("inspect", samples, "--validation", samples, "-o", tmp_path / "r.html")
    assert done.code == 2
    assert "trials" in done.err


HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "%DETAILS%",
           "\ud800 lone", "\u0000", "\u2028", "a\tb\nc"]


def test_texts_come_back_as_they_went_in():
    found = page_data(minrisk.inspect([{"id": "<b>", "source": HOSTILE[0], "samples": HOSTILE}],
                                      show=99).html)
    assert sorted(found.details[0]["texts"]) == sorted(HOSTILE)
    assert found.column("source") == [HOSTILE[0]]


def test_nothing_of_the_samples_is_outside_of_base64():
    html = minrisk.inspect([{"id": "<b>", "source": HOSTILE[0], "samples": HOSTILE}],
                           title='"><script>alert(2)</script>%INDEX%').html
    assert "alert(" not in html.replace("&lt;script&gt;alert(2)&lt;/script&gt;", "")
    assert html.count("<script>") == 1
    assert html.count("%INDEX%") == html.count("%DETAILS%") == 0


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else():
    html = minrisk.inspect([SAMPLES]).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_many_segments_come_in_parts(monkeypatch):
    monkeypatch.setattr(page, "_PART", 1000)
    found = page_data(minrisk.inspect([{"id": n, "samples": SAMPLES} for n in range(40)]).html)
    assert len(found.index["parts"]) > 3
    assert len(found.details) == 40
    assert all(details["texts"] for details in found.details)


def test_the_size_is_told_and_above_a_limit_what_to_lower(samples, tmp_path, monkeypatch):
    done = run("inspect", samples, "-o", tmp_path / "r.html")
    assert re.search(r"r\.html: 0\.\d MB", done.err)
    assert "lower --show" not in done.err
    monkeypatch.setattr("minrisk.cli.inspect.LARGE", 1000)
    assert "lower --show 16" in run("inspect", samples, "-o", tmp_path / "r2.html").err


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "r.html"
    target.write_text("the old page", encoding="utf-8")

    def chunks():
        yield b"half a page"
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        write_whole(str(target), chunks())
    assert target.read_text(encoding="utf-8") == "the old page"
    assert os.listdir(tmp_path) == ["r.html"]


def test_a_page_that_cannot_be_sent_leaves_the_old_one(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
    from object_store import Bucket

    monkeypatch.setenv("MINRISK_TEST_BUCKET", str(tmp_path / "bucket"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_whole("bucket://r.html", [b"the ", b"old page"])
    monkeypatch.setitem(Bucket.failing, "r.html", OSError("no connection"))
    with pytest.raises(minrisk.InputError, match=r"bucket://r\.html"):
        write_whole("bucket://r.html", [b"the new page"])
    assert (tmp_path / "bucket" / "r.html").read_bytes() == b"the old page"
    assert not list(tmp_path.rglob("file"))


@pytest.mark.parametrize("target", ["-", "folder/"])
def test_a_page_needs_a_file(samples, target):
    done = run("inspect", samples, "-o", target)
    assert done.code == 2
    assert "--output" in done.err


def test_a_page_that_exists_is_replaced_only_when_asked(samples, tmp_path):
    target = tmp_path / "r.html"
    target.write_text("the old page", encoding="utf-8")
    done = run("inspect", samples, "-o", target)
    assert done.code == 2
    assert "--overwrite" in done.err
    assert target.read_text(encoding="utf-8") == "the old page"
    inspected(samples, "-o", target, "--overwrite")
    assert data_of(target).column("id") == ["one", "two"]


def test_a_page_never_replaces_its_input(samples):
    before = samples.read_bytes()
    done = run("inspect", samples, "-o", samples, "--overwrite")
    assert done.code == 2
    assert samples.read_bytes() == before


def test_notebooks_show_the_page_in_a_frame_without_rights():
    report = minrisk.inspect([["<b>", "a"]])
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert shown.count("<") == 2  # the frame's own; those of the page are escaped
    assert "same-origin" not in shown


def test_a_report_can_be_saved_twice(tmp_path):
    report = minrisk.inspect([SAMPLES])
    for name in ("a.html", "b.html"):
        report.save(tmp_path / name)
        assert data_of(tmp_path / name).column("samples") == [6]


def test_a_note_is_part_of_the_page_if_there_is_one():
    noted = minrisk.inspect([["a", "b"]], note="of today")
    assert page_data(noted.html).index["note"] == "of today"
    assert "note" not in page_data(minrisk.inspect([["a", "b"]]).html).index


def test_records_of_chats_show_the_last_message():
    record = {"messages": [{"role": "user", "content": "6 * 7?"}], "samples": ["42", "42", "43"]}
    assert page_data(minrisk.inspect([record]).html).column("source") == ["6 * 7?"]


def test_numbers_are_json_everywhere(samples):
    html = minrisk.inspect([["one"]]).html
    found = page_data(html)
    assert found.column("margin") == [None]
    assert "NaN" not in json.dumps(found)


def test_utilities_that_are_no_means_are_those_of_the_strategy():
    """Of hypotheses; an output that it has not ranked has none."""
    record = RECORDS[0] | {"greedy": "a cat sat"}
    found = page_data(minrisk.inspect([record], strategy=Median()).html)
    medians, means = (dict(zip(SAMPLES, ranking.utility, strict=True)) for ranking in (
        minrisk.decode(SAMPLES, strategy=Median()), minrisk.decode(SAMPLES)))
    assert medians["a cat sat"] != pytest.approx(means["a cat sat"], rel=0.01)
    details, systems = found.details[0], found.index["systems"]
    assert_shown(details["utilities"], [medians[text] for text in details["texts"]])
    texts = {"choice": details["texts"][0], **details["outputs"]}
    utilities = {name: utility for name, (utility,) in zip(systems["names"], systems["utilities"],
                                                           strict=True)}
    assert utilities.pop("beam5") is None
    assert utilities.keys() == {"choice", "one sample", "most probable", "greedy"}
    assert_shown([*utilities.values()], [medians[texts[name]] for name in utilities])
    best, second = sorted(medians.values(), reverse=True)[:2]
    assert_shown(found.column("margin"), [best - second])
    assert found.column("confidence") == [None]
