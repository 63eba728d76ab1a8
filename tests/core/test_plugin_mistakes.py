"""Mistakes of plug-ins get a sentence that says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from minrisk.plugins import Metric, Ranking
from minrisk.testing import check_metric

TEXTS = ["a cat", "the cat", "dogs"]


@dataclass(frozen=True)
class Length(Metric[Any]):
    name: ClassVar[str] = "length"

    def features(self, texts):
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs)


class Transposed(Length):
    def scores(self, hyps, refs, source=None):
        return super().scores(hyps, refs, source).T - np.arange(len(hyps)) / 8


class Single(Length):
    def scores(self, hyps, refs, source=None):
        return super().scores(hyps, refs, source).astype(np.float32)


class Undefined(Length):
    def scores(self, hyps, refs, source=None):
        return np.log(super().scores(hyps, refs, source) + 0.5)


class OfBatch(Length):
    def features(self, texts):
        return super().features(texts) / max(map(len, [*texts, "x"]))


class Lists(Length):
    def features(self, texts):
        return [len(text) for text in texts]


class Fewer(Length):
    def features(self, texts):
        return np.zeros(len(texts) - 1)


@pytest.mark.filterwarnings("ignore:invalid value|divide by zero")
@pytest.mark.parametrize(("metric", "words"), [
    (Transposed(), ["transposed", "wanted (", "a row"]), (Single(), ["float32", "float64"]),
    (Undefined(), ["found nan for hypothesis"]), (OfBatch(), ["Features of a text"]),
    (Lists(), ["list"])])
def test_a_failed_check_has_a_name_a_sentence_and_the_texts(metric, words):
    object.__setattr__(metric, "name", type(metric).__name__.lower())
    with pytest.raises(AssertionError) as found:
        check_metric(metric)
    message = str(found.value)
    assert message.startswith("check_")
    assert "hypotheses: [" in message
    assert not [word for word in words if word not in message]


def test_transposed_scores_are_refused():
    with pytest.raises(minrisk.InputError, match=r"shape \(2, 3\) .* wanted \(3, 2\)"):
        minrisk.decode(TEXTS, references=["x", "yy"], metric=Transposed())


@pytest.mark.parametrize(("metric", "message"), [
    (Lists(), "`features` returned list"), (Fewer(), "returned 2 rows for 3 texts")])
def test_features_without_rows_are_refused(metric, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(TEXTS, metric=metric)


@dataclass(frozen=True)
class Short(minrisk.Standard):
    """A strategy that forgets a hypothesis, or a segment."""

    segments: bool = False

    def rank(self, segments):
        short = [Ranking(found.order[:-1], found.utility[:-1]) for found in super().rank(segments)]
        return super().rank(segments)[1:] if self.segments else short


@pytest.mark.parametrize(("strategy", "message"), [
    (Short("chrf"), "utilities of 2 hypotheses; wanted 3"),
    (Short("chrf", segments=True), "returned 0 rankings for 1 segments")])
def test_an_incomplete_ranking_is_refused(strategy, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(TEXTS, strategy=strategy)
    with pytest.raises(minrisk.InputError, match=message):
        list(minrisk.decode_corpus([TEXTS], strategy=strategy))
