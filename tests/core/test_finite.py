"""A score that is not finite fails its segment, with the pair that was not, in every strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk.strategies.confident import Confident
from small_metrics import Counting

WRONG = [float("nan"), float("inf"), float("-inf")]
TEXTS = ["a", "aa", "an infinite one", "aaaa", "aa"]
BAD = 2  # its place in TEXTS
OPTIONS = {"n-by-s": {"subset": 2}, "centroid": {"centroids": 2}, "prune": {"start": 1},
           "quality-then-mbr": {"quality": "poisoned"}, "coarse-to-fine": {"coarse": "chrf"},
           "cascade": {"coarse": minrisk.Standard("chrf")},
           "mbr-bon": {"quality": "poisoned"}, "fuse": {"writer": Counting()},
           "cluster": {"similarity": "chrf", "threshold": 0.0}}
SCORING = [name for name in STRATEGIES.builtin if name != "universal-self-consistency"]


@dataclass
class Plane:
    values: np.ndarray

    @property
    def mean(self):
        return self.values[:, 0]

    def at(self, refs):
        return np.tile(self.values, len(refs))


@dataclass(frozen=True)
class Poisoned:
    """All a metric may offer, and a wrong number for whatever touches one text."""

    name: ClassVar[str] = "poisoned"
    needs_source: ClassVar[bool] = True
    wrong: float = float("nan")
    as_reference: bool = False

    def features(self, texts):
        return np.array([self.wrong if t == TEXTS[BAD] else len(t) for t in texts])[:, None]

    def scores(self, hyps, refs, source=None):
        ours = refs.T if self.as_reference else hyps
        return np.where(np.isfinite(ours), -1.0, ours) * np.ones((len(hyps), len(refs)))

    def aggregate(self, refs, groups):
        return refs[:len(groups)]

    def vectors(self, features):
        return np.nan_to_num(features, posinf=0, neginf=0)

    def quality(self, hyps, source):
        return hyps[:, 0]

    def surrogate(self, hyps, refs, mass, source=None):
        return Plane(hyps)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", SCORING)
def test_every_strategy_says_which_score_was_not_finite(name, wrong, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "poisoned", "test_finite:Poisoned")
    strategy = minrisk.make_strategy(name, Poisoned(wrong), **OPTIONS.get(name, {}))
    with pytest.raises(minrisk.InputError) as error:
        strategy.rank([minrisk.Segment(TEXTS, source="s")])
    message = str(error.value)
    assert message.startswith("metric 'poisoned' scored ")
    assert "hypothesis 2 ('an infinite one')" in message
    if name not in ("quality-then-mbr", "mbr-bon"):
        assert f"scored {wrong} " in message


@pytest.mark.parametrize("leave_self_out", [False, True])
def test_the_reference_that_spoils_a_utility_is_named(leave_self_out):
    strategy = minrisk.Standard(Poisoned(np.inf, as_reference=True), leave_self_out)
    with pytest.raises(minrisk.InputError, match=r"hypothesis 0 \('a'\) and "
                                                 r"reference 2 \('an infinite one'\)"):
        strategy.rank([minrisk.Segment(TEXTS, source="s")])


def test_a_hypothesis_of_a_later_stage_has_its_place_in_the_input():
    segment = minrisk.Segment(TEXTS, source="s").keep(np.array([4, 2])).keep(np.array([1]))
    with pytest.raises(minrisk.InputError, match="'an infinite one'"):
        minrisk.Standard(Poisoned()).rank([segment])


def test_long_texts_are_shortened():
    long = "x" * 1000
    with pytest.raises(minrisk.InputError) as error:
        minrisk.decode([long], metric=Summed(np.inf))
    assert len(str(error.value)) < 400


@dataclass(frozen=True)
class Summed:
    """The same score for every pair."""

    name: ClassVar[str] = "summed"
    value: float

    def features(self, texts):
        return np.array([len(t) for t in texts])

    def scores(self, hyps, refs, source=None):
        return np.full((len(hyps), len(refs)), self.value)

    def utility(self, hyps, refs, mass, source=None):
        return np.full(len(hyps), np.inf)


def test_a_sum_that_overflows_is_told_as_one():
    with pytest.raises(minrisk.InputError, match=r"inf .* all references"):
        minrisk.decode(["a", "b"], metric=Summed(1.0))


def test_vectors_that_are_not_finite_are_told():
    class Nowhere(Poisoned):
        def vectors(self, features):
            return features

        def scores(self, hyps, refs, source=None):
            return np.zeros((len(hyps), len(refs)))

    with pytest.raises(minrisk.InputError, match="reference 2"):
        minrisk.decode(TEXTS, source="s", metric=Nowhere(), strategy="centroid", centroids=2)


def test_confidence_does_not_hide_it():
    with pytest.raises(minrisk.InputError, match="nan"):
        Confident(minrisk.Standard(Poisoned())).rank([minrisk.Segment(TEXTS, source="s")])


def test_references_in_shards_are_looked_at_too():
    for strategy in ("standard", "aggregate"):
        with pytest.raises(minrisk.InputError, match="nan"):
            minrisk.decode_parts(TEXTS, [["a", "b"], ["c"]], "s", metric=Parts(),
                                  strategy=strategy)


class Parts(Poisoned):
    def partial_statistics(self, hyps, refs, weights):
        return np.zeros(1)

    def finalize(self, hyps, statistics, source=None):
        return hyps[:, 0]


def test_decode_fails_the_segment_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "poisoned", "test_finite:Poisoned")
    path = write(tmp_path / "in.jsonl", {"samples": TEXTS, "source": "s"},
                 {"samples": ["a", "b"], "source": "s"})
    result = run("decode", path, "--metric", "poisoned", "--on-error", "skip")
    assert result.code == 3
    assert "nan for hypothesis 2" in result.records[0]["error"]
    assert result.records[1]["utility"] == -1


def test_score_fails_with_the_line(tmp_path, monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "poisoned", "test_finite:Poisoned")
    for name in ("system", "source", "reference"):
        (tmp_path / f"{name}.txt").write_text("a\nan infinite one\n")
    result = run("score", tmp_path / "system.txt", "-r", tmp_path / "reference.txt",
                 "-s", tmp_path / "source.txt", "--metric", "poisoned")
    assert result.code == 2
    assert "line 2: metric 'poisoned' scored nan" in result.err
    assert result.out == ""


def test_statistics_of_a_corpus_must_be_finite():
    class Statistical(Summed):
        def statistics(self, hyps, refs):
            return np.array([[len(hyp)] for hyp in hyps], float)

        def corpus(self, statistics):
            return float("nan") if statistics[0] == 2 else 1.0

    with pytest.raises(minrisk.InputError, match="line 2 of x: nan"):
        minrisk.score({"x": ["a", "bb"]}, ["a", "b"], metric=Statistical(1.0))
    with pytest.raises(minrisk.InputError, match="x: nan"):
        minrisk.score({"x": ["a", "b"]}, ["a", "b"], metric=Statistical(1.0))
