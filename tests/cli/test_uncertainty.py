"""`decode --uncertainty` and `--abstain`."""

from __future__ import annotations

import pytest

import minrisk
from commands import run, write
from tolerance import assert_close

SURE, TORN = ["the cat sat down"] * 3 + ["the cat sat"], ["yes", "no", "perhaps", "yes"]


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "s.jsonl", {"samples": SURE}, {"samples": TORN})


def test_uncertainty_is_what_python_says(samples):
    lines = run("decode", samples, "--uncertainty").records
    for line, texts in zip(lines, (SURE, TORN), strict=True):
        strategy = minrisk.Uncertain(minrisk.Standard("chrf"))
        expected = minrisk.decode(texts, strategy=strategy).uncertainty
        found = line["uncertainty"]
        assert found["clusters"] == expected.clusters
        for name in ("entropy", "largest", "utility"):
            assert_close(found[name], getattr(expected, name))


def test_it_goes_with_confidence(samples):
    line = run("decode", samples, "--uncertainty", "--confidence").records[0]
    assert {"uncertainty", "confidence"} <= set(line)


def test_a_choice_that_most_samples_do_not_mean_is_withheld(samples):
    sure, torn = run("decode", samples, "--abstain", "0.7").records
    assert sure["text"] == "the cat sat down"
    assert "abstained" not in sure
    assert (torn["text"], torn["abstained"]) == (None, True)
    assert torn["uncertainty"]["largest"] == 0.5


def test_in_plain_text_an_abstention_is_a_blank_line(samples):
    done = run("decode", samples, "--abstain", "0.7", "--format", "text")
    assert done.out == "the cat sat down\n\n"


def test_nobody_abstains_below_a_share_of_zero(samples):
    assert [line["text"] for line in run("decode", samples, "--abstain", "0").records] == [
        "the cat sat down", "yes"]


def test_one_vote_of_eight_is_no_agreement(tmp_path):
    texts = ["I think it is 3", *(f"no idea {chr(97 + i)}" for i in range(7))]
    [found] = run("decode", write(tmp_path / "v.jsonl", {"samples": texts}), "--metric",
                  "exact-match", "--metric.pattern", r"\b\d+\b", "--abstain", "0.4").records
    assert (found["text"], found["abstained"]) == (None, True)
    assert found["votes"] == {"3": 0.125}
    assert (found["uncertainty"]["largest"], found["uncertainty"]["unanswered"]) == (0.125, 0.875)


@pytest.mark.parametrize("share", ["-0.1", "1.1", "much"])
def test_a_share_is_between_nothing_and_all(samples, share):
    assert run("decode", samples, "--abstain", share).code == 2
