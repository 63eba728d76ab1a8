"""Log-probabilities of samples as their quality."""

from __future__ import annotations

import json

import numpy as np
import pytest

import minrisk
from commands import run
from minrisk._core.errors import InputError
from minrisk._core.metric import Ability
from minrisk.testing import check_abilities
from tolerance import assert_close

HYPS = ["a cat sat", "cats", "a cat sat", "the cat sat down"]
LOGPROBS, LENGTHS = [-4.0, -3.0, -3.5, -6.0], [3, 1, 3, 4]


def rerank(normalise: bool = False, **given) -> minrisk.Ranking:
    strategy = minrisk.Rerank(minrisk.LogProb(normalise))
    return minrisk.decode(HYPS, strategy=strategy, **({"logprobs": LOGPROBS} | given))


def test_the_most_probable_sample_is_chosen():
    """Equal texts have the largest of their log-probabilities."""
    assert rerank().utility.tolist() == [-3.5, -3, -3.5, -6]
    assert rerank().text == "cats"


def test_log_probabilities_are_divided_by_tokens_or_else_by_characters():
    assert_close(rerank(True, lengths=LENGTHS).utility, [-3.5 / 3, -3, -3.5 / 3, -6 / 4])
    assert_close(rerank(True).utility, [-3.5 / 9, -3 / 4, -3.5 / 9, -6 / 16])


def test_an_empty_sample_has_the_probability_of_its_end():
    ranking = minrisk.decode(["", "a"], logprobs=[-1, -2], lengths=[0, 2],
                             strategy=minrisk.Rerank(minrisk.LogProb(True)))
    assert ranking.utility.tolist() == [-1, -1]


def test_it_is_a_reward_like_any_other():
    found = minrisk.decode(HYPS, logprobs=LOGPROBS, strategy="mbr-bon", quality="logprob", beta=0.1)
    assert_close(found.utility, rerank().utility + 0.1 * minrisk.decode(HYPS).utility)
    kept = minrisk.decode(HYPS, logprobs=LOGPROBS, strategy="quality-then-mbr", quality="logprob",
                          keep=1)
    assert kept.text == "cats"
    total = minrisk.decode(HYPS, logprobs=LOGPROBS, metric=minrisk.Combined(("logprob", "chrf")))
    assert_close(total.utility, rerank().utility + minrisk.decode(HYPS).utility)


def test_hypotheses_that_a_stage_keeps_take_their_log_probabilities_along():
    segment = minrisk.Segment(HYPS, logprobs=LOGPROBS, lengths=LENGTHS).keep(np.array([3, 1]))
    assert segment.logprobs.tolist() == [-6, -3]
    assert segment.lengths.tolist() == [4, 1]
    assert segment.at(5).logprobs.tolist() == [-6, -3]


def test_records_bring_their_log_probabilities(tmp_path):
    line = {"samples": HYPS, "logprobs": LOGPROBS, "lengths": LENGTHS}
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    done = run("decode", tmp_path / "in.jsonl", "--strategy", "rerank", "--metric", "logprob",
               "--utilities")
    assert done.records[0]["utilities"] == [-3.5, -3, -3.5, -6]
    mean = run("decode", tmp_path / "in.jsonl", "--strategy", "rerank", "--metric", "logprob",
               "--metric.normalise")
    assert mean.records[0]["text"] == "a cat sat"


def test_samples_of_a_sampler_bring_theirs(server, tmp_path):
    (tmp_path / "in.txt").write_text("one\n")
    common = ["--endpoint", server.endpoint, "--model", "m", "-n", "8", "--prompt", "{source}"]
    [sampled] = run("sample", tmp_path / "in.txt", *common).records
    done = run("translate", tmp_path / "in.txt", *common, "--strategy", "rerank", "--metric",
               "logprob", "--format", "json")
    best = int(np.argmax(sampled["logprobs"]))
    assert done.records[0]["text"] == sampled["samples"][best]


def test_log_probabilities_that_are_missing_or_wrong_are_told(tmp_path):
    with pytest.raises(InputError, match="log-probability"):
        minrisk.decode(HYPS, strategy="rerank", metric="logprob")
    with pytest.raises(InputError, match=r"4 logprobs .* 2"):
        rerank(logprobs=[-1, -2])
    with pytest.raises(InputError, match=r"4 lengths .* 1"):
        rerank(True, lengths=[3])
    with pytest.raises(InputError, match="logprob"):
        minrisk.LogProb().features(["a"])
    # they belong to the references here
    line = {"samples": HYPS, "references": ["a"], "logprobs": [-1.0]}
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    done = run("decode", tmp_path / "in.jsonl", "--strategy", "rerank", "--metric", "logprob")
    assert "log-probability" in done.err


@pytest.mark.parametrize("name", ["logprobs", "lengths"])
def test_numbers_of_hypotheses_are_told_to_be_theirs(name):
    with pytest.raises(InputError, match=f"4 {name} .* 1"):
        minrisk.Segment(HYPS, ["a cat"], **{name: [1.0]})


def test_references_of_their_own_do_not_matter():
    alone = rerank()
    for metric in ("logprob", "logprob+logprob"):
        assert minrisk.make_metric(metric).ignores_references
        found = minrisk.decode(HYPS, ["a dog"], logprobs=LOGPROBS, metric=metric)
        assert found.order.tolist() == alone.order.tolist()
    assert not minrisk.make_metric("logprob+chrf").ignores_references
    assert not minrisk.make_metric("symmetric:logprob").ignores_references


def test_only_equal_texts_are_alike_to_what_compares_none():
    strategy = minrisk.Uncertain(minrisk.Standard(minrisk.LogProb()))
    found = minrisk.decode(HYPS, logprobs=LOGPROBS, strategy=strategy).uncertainty
    assert (found.clusters, found.largest) == (3, 0.5)


@pytest.mark.parametrize("references", [None, ["a cat"]])
def test_a_sum_with_it_can_be_measured(references):
    strategy = minrisk.Uncertain(minrisk.Standard(minrisk.Combined(("chrf", "logprob"))))
    found = minrisk.decode(HYPS, references, logprobs=LOGPROBS, strategy=strategy)
    assert found.uncertainty.clusters == 3


def test_its_declarations_are_true():
    check_abilities(minrisk.LogProb())
    assert minrisk.LogProb().abilities == Ability.QUALITY
