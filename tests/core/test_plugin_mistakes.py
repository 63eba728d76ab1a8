"""Mistakes of plug-ins get a sentence that says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from minrisk.plugins import Metric, Ranking
from minrisk.testing import check_metric, check_strategy

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
    (Transposed(), ["transposed", "expected (", "a row"]), (Single(), ["float32", "float64"]),
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
    with pytest.raises(minrisk.InputError, match=r"\(2, 3\) .* \(3, 2\)"):
        minrisk.decode(TEXTS, references=["x", "yy"], metric=Transposed())


@pytest.mark.parametrize(("type", "shown"), [
    (complex, "complex128"), (str, "<U"), (object, "object")])
def test_scores_that_are_no_real_numbers_are_refused(type, shown):
    class Typed(Length):
        def scores(self, hyps, refs, source=None):
            return super().scores(hyps, refs, source).astype(type)

    with pytest.raises(minrisk.InputError, match=shown):
        minrisk.decode(TEXTS, metric=Typed())


@pytest.mark.parametrize(("metric", "message"), [
    (Lists(), "list"), (Fewer(), "2 rows for 3")])
def test_features_without_rows_are_refused(metric, message):
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(TEXTS, metric=metric)


@dataclass(frozen=True)
class Mistaken(minrisk.Standard):
    """A strategy that returns something else than a ranking of all hypotheses."""

    mistake: Any = None

    def rank(self, segments):
        return self.mistake(super().rank(segments))


def changed(change):
    return lambda rankings: [change(found) for found in rankings]


@pytest.mark.parametrize(("mistake", "message"), [
    (changed(lambda found: Ranking(found.order[:-1], found.utility[:-1])), "expected 3"),
    (changed(lambda found: Ranking(found.order * 0, found.utility)), "each hypothesis"),
    (changed(lambda found: None), "NoneType"),
    (lambda rankings: rankings[1:], "0 rankings"),
    (lambda rankings: None, "NoneType"),
])
def test_an_incomplete_ranking_is_refused(mistake, message):
    strategy = Mistaken("chrf", mistake=mistake)
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(TEXTS, strategy=strategy)
    with pytest.raises(minrisk.InputError, match=message):
        list(minrisk.decode_corpus([TEXTS], strategy=strategy))
    segments = [minrisk.Segment(TEXTS)]
    with pytest.raises(AssertionError, match="^check_rankings_are_complete(.|\n)*" + message):
        check_strategy(strategy, segments)


def test_a_ranking_that_depends_on_the_batch_is_told():
    strategy = Mistaken("chrf", mistake=lambda rankings: [
        replace(found, utility=found.utility + len(rankings)) for found in rankings])
    with pytest.raises(AssertionError, match=r"^check_batch(.|\n)*'a cat', 'the cat'"):
        check_strategy(strategy, [minrisk.Segment(TEXTS)] * 2)
