"""What all integrations share, with no framework at hand."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

import minrisk
from minrisk.integrations.chooser import Chooser, report

TEXTS = ["It is 4.", "5", "The answer is 4", "4", "none"]


def test_the_choice_is_that_of_decode():
    found = Chooser("chrf", "aggregate")(TEXTS)
    ranking = minrisk.decode(TEXTS, metric="chrf", strategy="aggregate")
    assert (found.text, found.utility) == (ranking.text, ranking.utility[ranking.best])
    assert report(found)["signature"] == ranking.signature


def test_votes_and_confidence_are_reported_as_json():
    found = report(Chooser("exact-match", metric_options={"pattern": r"\d+"})(TEXTS))
    assert json.loads(json.dumps(found)) == found
    assert found["votes"] == pytest.approx({"4": 0.6, "5": 0.2})
    assert found["confidence"]["share"] == pytest.approx(0.6)
    assert (found["index"], found["samples"], found["abstained"]) == (0, 5, False)


def test_a_choice_may_abstain():
    found = Chooser("exact-match", abstain=0.9, uncertainty=True)(TEXTS)
    assert found.text is None
    assert report(found)["abstained"]
    assert report(found)["uncertainty"]["clusters"] == 5


def test_problems_have_sources_of_their_own():
    def overlap(hyp, ref):
        return float(hyp == ref)

    found = list(Chooser(overlap).each([(["a", "b", "b"], "x"), (["c"], None)]))
    assert [one.text for one in found] == ["b", "c"]
    assert [one.segment.source for one in found] == ["x", None]


@pytest.mark.parametrize(("named", "arguments"), [
    ("chrff", {"metric": "chrff"}), ("standart", {"strategy": "standart"}),
    ("order", {"metric_options": {"ordre": 3}}), ("subsett", {"subsett": 3}),
    ("metric_options", {"metric_options": "ordre=3"}), ("output", {"output": "choices.jsonl"}),
    ("metric_options", {"metric": minrisk.ChrF(), "metric_options": {"order": 3}})])
def test_wrong_names_are_an_error_before_anything_is_sampled(named, arguments):
    with pytest.raises(minrisk.InputError, match=named):
        Chooser(**arguments)


@pytest.mark.parametrize(("module", "package", "extra"), [
    ("inspect_ai", "inspect_ai", "inspect-ai"), ("lm_eval", "lm_eval", "lm-eval"),
    ("dspy", "dspy", "dspy"), ("langchain", "langchain_core", "langchain")])
def test_a_missing_package_names_its_extra(module, package, extra, monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"minrisk.integrations.{module}", raising=False)
    with pytest.raises(minrisk.MissingExtra, match=rf"minrisk\[{extra}\]"):
        importlib.import_module(f"minrisk.integrations.{module}")
