"""Metrics made of metrics: names, options, signatures, and what they compute."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import PATIENCE, run, spawn, write
from generators import text_lists
from minrisk._core.adapters import as_metric
from minrisk._core.fingerprint import fingerprint
from minrisk._core.metric import Ability
from minrisk._core.registry import METRICS, quoted
from minrisk._core.signature import parts_signature
from minrisk._core.sqlite_cache import SqliteCache
from minrisk.metrics.edit import Edit
from minrisk.metrics.given import GivenScores
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.metrics.wrappers.cached import Cached, _Keys, _table
from minrisk.metrics.wrappers.combined import Combined, Symmetric
from minrisk.strategies.confident import MAX_CONTENDERS
from minrisk.testing import check_metric
from small_metrics import many, scores
from tolerance import assert_close

CHRF = minrisk.ChrF()


@given(hyps=text_lists, refs=text_lists)
def test_a_sum_is_the_sum(hyps, refs):
    expected = 0.5 * scores(CHRF, hyps, refs) + 3 * scores(Edit(), hyps, refs)
    assert_close(scores(METRICS.make("chrf*0.5+edit*3"), hyps, refs), expected, scale=100)


def test_ranks_ignore_scale_and_halve_ties():
    metric = Combined((CHRF, Edit()), by="rank")
    found = scores(Combined((CHRF,), by="rank"), ["cat", "cat", "dog", "cats"], ["cat"])
    assert_close(found[:, 0], [6 / 8, 6 / 8, 1 / 8, 3 / 8])
    hyps, refs = ["the cat", "a cat", "dogs", ""], ["the cats", "dog"]
    apart = sum(scores(Combined((m,), by="rank"), hyps, refs) for m in (CHRF, Edit()))
    assert_close(scores(metric, hyps, refs), apart)


@pytest.mark.parametrize(("by", "strategy"), [
    *product(["rank", "utility-rank", "z-score", "min-max"], [
        lambda metric: minrisk.CoarseToFine(metric, metric, 4),
        lambda metric: minrisk.CoarseToFine(metric, "chrf", 4),
        lambda metric: minrisk.Cascade(minrisk.NByS("edit", 4), minrisk.Standard(metric), 4)]),
    ("rank", lambda metric: minrisk.Adaptive(metric, 0.5))])
def test_hypotheses_are_ranked_and_scaled_among_all_also_where_few_are_left(by, strategy):
    metric = Combined((CHRF, Edit()), by=by)
    hyps = many(30)
    exact = minrisk.decode(hyps, many(8, 1), metric=metric).utility
    [found] = strategy(metric).rank([minrisk.Segment(hyps, many(8, 1))])
    left = [row for row in found.order[:2] if not np.isnan(found.utility[row])]
    assert_close(found.utility[left], exact[left])


def test_confidence_compares_ranks_among_all_hypotheses():
    metric, hyps, refs = Combined((CHRF, Edit()), by="rank"), many(30), many(8, 1)
    assert len(set(hyps)) > MAX_CONTENDERS
    [pool] = minrisk.bind(metric, [minrisk.Segment(hyps, refs)])
    same = GivenScores.for_segment(pool.scores(), pool.segment)
    found, expected = (minrisk.Confident(minrisk.Standard(one)).rank([pool.segment])[0].confidence
                       for one in (metric, same))
    assert found.probability == pytest.approx(expected.probability)
    assert found.margin == pytest.approx(expected.margin)
    assert 0 < found.probability < 1


@pytest.mark.parametrize("by", ["rank", "utility-rank"])
def test_ranks_of_parts_are_those_of_all_references(by):
    metric, hyps, refs = Combined((CHRF, ExactMatch()), by=by), many(12), many(8, 1)
    strategy = minrisk.Standard(metric) if by == "rank" else minrisk.Aggregate(metric)
    found = minrisk.decode_parts(hyps, [refs[:3], refs[3:]], strategy=strategy)
    assert_close(found.utility, minrisk.decode(hyps, refs, strategy=strategy).utility)


def test_no_wrapper_ranks_some_of_the_hypotheses_for_another():
    for wrapper in (Cached, Symmetric):
        with pytest.raises(minrisk.InputError, match="segment"):
            wrapper(Combined((CHRF, Edit()), by="rank"))


@pytest.mark.parametrize("by", ["rank", "utility-rank"])
def test_ranks_tell_apart_what_differs_by_little_of_little(by):
    one, other = (minrisk.decode(SAMPLES, metric=Combined((Lengths(scale),), by=by)).utility
                  for scale in (1.0, 1e-10))
    assert_close(one, other)
    assert np.unique(one).size > 2


@dataclass(frozen=True)
class Lengths:
    scale: float
    name: ClassVar[str] = "lengths"

    def features(self, texts):
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -self.scale * np.abs(hyps[:, None] - refs)


SAMPLES = ["the cat sat", "a cat sat", "the cat sat down", "dogs", "a cat sat"]
RESCALED = {  # utilities of different hypotheses, the plain way
    "utility-rank": lambda u: np.array([((u < one).sum() + (u == one).sum() / 2) / u.size
                                        for one in u]),
    "z-score": lambda u: (u - u.mean()) / u.std(),
    "min-max": lambda u: (u - u.min()) / (u.max() - u.min()),
}


@pytest.mark.parametrize("strategy", [minrisk.Standard, minrisk.Aggregate])
@pytest.mark.parametrize("by", RESCALED)
def test_utilities_are_ranked_or_scaled_over_the_segment(by, strategy):
    counts = [1, 2, 1, 3]
    metric = Combined((CHRF, ExactMatch()), (0.5, 2.0), by)
    segment = minrisk.Segment(SAMPLES[:4], counts=counts)
    [found] = strategy(metric).rank([segment])
    expected = sum(weight * RESCALED[by](strategy(part).rank([segment])[0].utility)
                   for part, weight in zip(metric.metrics, metric.weights, strict=True))
    assert_close(found.utility, expected)


@pytest.mark.parametrize("by", RESCALED)
def test_the_scale_of_a_metric_does_not_matter_to_scaled_utilities(by):
    class Huge(Counting):
        needs_source = False

        def scores(self, hyps, refs, source=None):
            return 1e6 * np.minimum.outer(hyps, refs) + 5e7

    class Small(Huge):
        def scores(self, hyps, refs, source=None):
            return np.minimum.outer(hyps, refs)

    one, other = (minrisk.decode(SAMPLES, metric=Combined((CHRF, part()), by=by))
                  for part in (Huge, Small))
    assert_close(one.utility, other.utility, ulps=1e6)
    np.testing.assert_array_equal(one.order, other.order)


@pytest.mark.parametrize("by", RESCALED)
def test_hypotheses_that_a_metric_does_not_tell_apart_are_all_the_same_to_it(by):
    both = Combined((CHRF, ExactMatch()), by=by)
    texts = ["one", "two", "three three"]
    found = minrisk.decode(texts, metric=both).utility
    alone = minrisk.decode(texts, metric=Combined((CHRF,), by=by)).utility
    assert_close(found - alone, np.full(3, 0.5 if by == "utility-rank" else 0.0), scale=1)


@pytest.mark.parametrize("by", RESCALED)
def test_averages_in_parts_are_scaled_once_they_are_whole(by):
    metric = Combined((CHRF, ExactMatch()), by=by)
    parts = minrisk.decode_parts(SAMPLES[:4], [SAMPLES[:2], SAMPLES[2:]],
                                 strategy=minrisk.Aggregate(metric))
    whole = minrisk.decode(SAMPLES[:4], SAMPLES, strategy=minrisk.Aggregate(metric))
    assert_close(parts.utility, whole.utility)
    with pytest.raises(minrisk.InputError, match="parts"):
        minrisk.decode_parts(SAMPLES[:4], [SAMPLES[:2], SAMPLES[2:]],
                             strategy=minrisk.Standard(metric))


@pytest.mark.parametrize(("strategy", "options"), [
    ("n-by-s", {"subset": 5}), ("aggregate-to-fine", {"keep": 4}),
    ("coarse-to-fine", {"coarse": "edit", "keep": 4}),
    ("cluster", {"similarity": "chrf", "threshold": 0.0})])
def test_strategies_that_need_no_pairs_take_scaled_utilities(strategy, options):
    metric = Combined((CHRF, ExactMatch()), by="z-score")
    texts, refs = SAMPLES[:4], SAMPLES
    found = minrisk.decode(texts, refs, metric=metric, strategy=strategy, **options)
    assert_close(found.utility, minrisk.decode(texts, refs, metric=metric).utility, ulps=1e4)


@pytest.mark.parametrize("strategy", ["prune", "adaptive", "low-rank", "diverse", "medoids"])
def test_strategies_of_pairs_refuse_scaled_utilities(strategy):
    with pytest.raises(minrisk.InputError, match="by='z-score'"):
        minrisk.decode(SAMPLES, metric=Combined((CHRF,), by="z-score"), strategy=strategy)


def test_a_combination_averages_references_if_all_of_it_does():
    both = Ability.AVERAGES | Ability.PARTIAL_STATISTICS
    assert Combined((CHRF, ExactMatch())).abilities == both
    assert Combined((CHRF, Edit())).abilities == Ability.NONE
    assert Ability.AVERAGES not in Symmetric(CHRF).abilities
    with pytest.raises(minrisk.InputError, match=r"chrf\+edit"):
        minrisk.decode(["a", "b"], metric="chrf+edit", strategy="aggregate")


@given(texts=text_lists)
def test_symmetric_scores_are_symmetric(texts):
    found = scores(Symmetric(CHRF), texts, texts)
    assert_close(found, found.T, scale=100)
    there = scores(CHRF, texts, texts)
    assert_close(found, (there + there.T) / 2, scale=100)


@pytest.mark.parametrize("name", ["chrf", "bleu", "ter", "edit"])
@pytest.mark.parametrize("references", [["the cat sat", "a dog"],
                                        [["the cat sat", "cats"], ["dogs", "a big dog"]]])
def test_a_corpus_scores_the_same_through_a_cache(name, references):
    systems = {"one": ["the cat sat down", "dogs"], "two": ["a cat", "a dog"]}
    plain = minrisk.score(systems, references, metric=name, resamples=20)
    cached = minrisk.score(systems, references, metric=f"cached:{name}", resamples=20)
    for system in systems:
        assert cached[system].signature.startswith(f"cached:{name}|")
        assert replace(cached[system], signature=plain[system].signature) == plain[system]


@pytest.mark.parametrize("name", ["chrf", "bleu", "ter"])
@given(hyps=text_lists, refs=text_lists)
def test_a_symmetric_corpus_score_is_the_mean_of_both_directions(name, hyps, refs):
    """With a reference each; a corpus has as many texts as both lists."""
    count = min(len(hyps), len(refs))
    hyps, refs = hyps[:count], refs[:count]
    there, back = (minrisk.score({"it": ours}, theirs, metric=name)["it"].value
                   for ours, theirs in ((hyps, refs), (refs, hyps)))
    found = minrisk.score({"it": hyps}, refs, metric=f"symmetric:{name}")["it"].value
    assert_close(found, (there + back) / 2, scale=100)


def test_on_the_way_back_every_reference_counts():
    metric = METRICS.make("symmetric:ter")
    (rows,) = metric.statistics(["a b c"], [["a b", "a b c d"]])
    assert rows.tolist() == [1, 3, 2, 6]  # nearest and mean length; both edits and lengths


@pytest.mark.parametrize("name", ["cached:ter", "symmetric:ter", "cached:symmetric:ter"])
def test_an_error_stays_one_inside_a_wrapper(name, tmp_path):
    metric = METRICS.make(name)
    assert metric.is_error
    assert metric == pickle.loads(pickle.dumps(metric))
    assert not METRICS.make(name.replace("ter", "edit")).is_error
    lines = write(tmp_path / "system.txt", "a dog")
    references = write(tmp_path / "references.txt", "a cat")
    result = run("score", lines, "-r", references, "--metric", name)
    assert json.loads(result.out)["score"] == 50.0


@dataclass(frozen=True)
class Counting:
    """Scores that count how often they were asked for, and need the source."""

    name: ClassVar[str] = "counting"
    needs_source: ClassVar[bool] = True
    asked: ClassVar[list[tuple[int, int]]] = []
    bias: float = 0.0

    def features(self, texts):
        return np.array([len(t) for t in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        self.asked.append((len(hyps), len(refs)))
        return self.bias + np.subtract.outer(hyps, refs) + source[0]


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return ":memory:" if request.param == "memory" else str(tmp_path / "scores.db")


def test_a_pair_is_scored_once(path):
    metric = Cached(Counting(), path)
    Counting.asked.clear()
    first = minrisk.decode(["a", "bb", "ccc"], source="s", metric=metric)
    again = minrisk.decode(["a", "bb", "ccc"], source="s", metric=metric)
    np.testing.assert_array_equal(again.utility, first.utility)
    assert Counting.asked == [(3, 3)]
    minrisk.decode(["a", "bb"], ["ccc", "dddd"], source="s", metric=metric)
    assert Counting.asked == [(3, 3), (2, 1)]
    other = minrisk.decode(["a", "bb", "ccc"], source="long source", metric=metric)
    assert_close(other.utility, first.utility + 10)


def test_scores_of_other_options_are_not_found(tmp_path):
    path = str(tmp_path / "scores.db")
    for order in (1, 2):
        np.testing.assert_array_equal(scores(Cached(minrisk.ChrF(order), path), ["abc"], ["abd"]),
                                      scores(minrisk.ChrF(order), ["abc"], ["abd"]))


def decoded_utility(folder, metric):
    """By a run of its own, as a user has one after each change."""
    samples = write(folder / "samples.jsonl", {"samples": ["ab", "c"]})
    with spawn("decode", samples, "--metric", f"cached:{metric}", "--metric.path",
               folder / "scores.db", "--utilities", cwd=folder) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    return json.loads(out)["utilities"]


def test_a_function_that_changed_is_asked_again(tmp_path):
    module = tmp_path / "changing.py"
    module.write_text("def score(hypothesis, reference): return len(hypothesis)")
    assert decoded_utility(tmp_path, "python:changing:score") == [2, 1]
    (tmp_path / "front.py").write_text("from changing import score")
    assert decoded_utility(tmp_path, "python:front:score") == [2, 1]
    module.write_text("def score(hypothesis, reference): return -len(hypothesis)")
    assert decoded_utility(tmp_path, "python:changing:score") == [-2, -1]
    assert decoded_utility(tmp_path, "python:front:score") == [-2, -1]


@pytest.mark.parametrize("command", ["./score.sh", "sh score.sh", "sh score.sh --scale=scale.txt"])
def test_a_program_that_changed_is_asked_again(tmp_path, command):
    scale, shell = tmp_path / "scale.txt", tmp_path / "score.sh"
    scale.write_text("3")
    shell.write_text("#!/bin/sh\nwhile read line; do cat scale.txt; echo; done\n")
    shell.chmod(0o755)
    assert decoded_utility(tmp_path, f"command:{command}") == [3, 3]
    if "scale" in command:
        scale.write_text("5")
    else:
        shell.write_text(shell.read_text().replace("cat scale.txt", "printf 5"))
    assert decoded_utility(tmp_path, f"command:{command}") == [5, 5]


@dataclass(frozen=True)
class Modelled:
    """A metric with a model in a folder, or a file."""

    name: ClassVar[str] = "modelled"
    model: str

    def features(self, texts):
        return np.array([len(t) for t in texts], dtype=float)

    def scores(self, hyps, refs, source=None):
        bias = float(next(Path(self.model).rglob("weights")).read_text())
        return bias + np.subtract.outer(hyps, refs)


@pytest.mark.parametrize("content", ["2", "2" + " " * (1 << 20)], ids=["small", "large"])
def test_a_model_that_was_replaced_gives_its_own_scores(tmp_path, content):
    """A large file is not read whole: its size, or the time of its change, tells."""
    folder = tmp_path / "model" / "inner"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("1" + content[1:])
    os.utime(folder / "weights", (1, 1))
    path = str(tmp_path / "scores.db")
    assert scores(Cached(Modelled(str(tmp_path / "model")), path), ["a"], ["a"]) == 1
    (folder / "weights").write_text(content)
    assert scores(Cached(Modelled(str(tmp_path / "model")), path), ["a"], ["a"]) == 2


def test_a_model_that_stayed_the_same_is_found_again(tmp_path):
    (tmp_path / "weights").write_text("1")
    metric, path = Modelled(str(tmp_path)), str(tmp_path.with_suffix(".db"))
    assert fingerprint(as_metric(metric)) == fingerprint(as_metric(Modelled(str(tmp_path))))
    assert scores(Cached(metric, path), ["a"], ["a"]) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Modelled, "scores", lambda *_: pytest.fail("the model was asked"))
        assert scores(Cached(Modelled(str(tmp_path)), path), ["a"], ["a"]) == 1


def test_only_the_pairs_of_a_segment_are_looked_up(path, monkeypatch):
    """Some samples are part of every segment: what they met elsewhere must not be read again."""
    metric = Cached(CHRF, path)
    for i in range(20):
        minrisk.decode(["Yes.", "", f"answer {i}"], metric=metric)
    texts = metric.features(["Yes.", "answer 1"])
    keys = _Keys.from_texts(metric._identity, texts, texts, None)
    read, look_up = [], SqliteCache.find
    monkeypatch.setattr(SqliteCache, "find",
                        lambda *query: read.append([*look_up(*query)]) or read[-1])
    _table(path).find(keys)
    assert [len(rows) for rows in read] == [2, 2]


def test_references_beyond_one_query_are_found(path):
    texts = [f"text {i}" for i in range(1201)]
    first = scores(Cached(CHRF, path), texts[:2], texts)
    np.testing.assert_array_equal(scores(Cached(CHRF, path), texts[:2], texts), first)
    columns = (np.array(some, object) for some in (texts[:2], texts))
    keys = _Keys.from_texts(Cached(CHRF, path)._identity, *columns, None)
    np.testing.assert_array_equal(_table(path).find(keys), first)


@pytest.mark.parametrize("score", ["abc", float("inf"), None, b"\0\1"])
def test_rows_that_hold_no_score_are_computed_again(tmp_path, score):
    path = str(tmp_path / "scores.db")
    expected = scores(Cached(CHRF, path), ["abc"], ["abd", "x"])
    with contextlib.closing(sqlite3.connect(path)) as table, table:
        table.execute("UPDATE scores SET score = ?", (score,))
    np.testing.assert_array_equal(scores(Cached(CHRF, path), ["abc"], ["abd", "x"]), expected)
    with contextlib.closing(sqlite3.connect(path)) as table:
        assert sorted(table.execute("SELECT score FROM scores")) == sorted(
            (value,) for value in expected[0].tolist())


def test_scores_that_are_not_finite_are_not_kept(path):
    class Lost(Counting):
        name = "lost"
        needs_source = False

        def scores(self, hyps, refs, source=None):
            self.asked.append((len(hyps), len(refs)))
            return np.full((len(hyps), len(refs)), np.inf)

    Lost.asked.clear()
    for _ in range(2):
        assert np.isinf(scores(Cached(Lost(), path), ["a"], ["b"]))
    assert len(Lost.asked) == 2


def test_a_disk_that_is_full_is_told(tmp_path):
    path = str(tmp_path / "scores.db")
    scores(Cached(CHRF, path), ["a"], ["b"])
    _table(path)._cache.read("PRAGMA max_page_count = 1")
    texts = [f"text {i}" for i in range(100)]
    with pytest.raises(minrisk.InputError, match="full"):
        scores(Cached(CHRF, path), texts, texts)


def test_a_table_that_stays_locked_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk._core.sqlite_cache._LOCK_SECONDS", 0.1)
    path = str(tmp_path / "scores.db")
    scores(Cached(CHRF, path), ["a"], ["b"])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(minrisk.InputError, match="locked"):
            scores(Cached(CHRF, path), ["a"], ["c"])


def test_processes_share_a_file_of_scores(tmp_path):
    path = tmp_path / "scores.db"
    code = ("import sys, minrisk; from minrisk.metrics.wrappers.cached import Cached;"
            "texts = [str(i % 50) * 3 for i in range(int(sys.argv[2]))];"
            "print(minrisk.decode(texts, metric=Cached(minrisk.ChrF(), sys.argv[1])).best)")
    made = [subprocess.Popen([sys.executable, "-c", code, str(path), count],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for count in ("60", "90", "60")]
    for process in made:
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err.decode()
    with sqlite3.connect(path) as table:
        (count,) = table.execute("SELECT COUNT(*) FROM scores").fetchone()
    table.close()
    assert count == 50 * 50


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt/scores.db", "."])
def test_a_file_that_cannot_hold_scores_is_told(name, tmp_path):
    (tmp_path / "notes.txt").write_text("these are my notes, not a table of scores\n" * 20)
    with pytest.raises(minrisk.InputError, match="cache"):
        scores(Cached(CHRF, str(tmp_path / name)), ["a"], ["b"])


@pytest.mark.parametrize(("name", "options", "made"), [
    ("chrf", {"order": 2}, minrisk.ChrF(2)),
    ("chrf+edit", {}, Combined((CHRF, Edit()))),
    ("chrf*0.5+edit*-1e-1", {"chrf__order": 4}, Combined((minrisk.ChrF(4), Edit()), (0.5, -0.1))),
    ("chrf*2", {}, Combined((CHRF,), (2.0,))),
    ("chrf+chrf", {"chrf2__word_order": 2, "by": "rank"},
     Combined((CHRF, minrisk.ChrF(word_order=2)), by="rank")),
    ("symmetric:edit", {"edit__unit": "word"}, Symmetric(Edit("word"))),
    ("cached:symmetric:chrf", {"path": "x", "symmetric__chrf__order": 1},
     Cached(Symmetric(minrisk.ChrF(1)), "x")),
    ("exact-match:a (\\d+)", {"numbers": True}, ExactMatch(r"a (\d+)", numbers=True)),
    ("chrf+exact-match:x+", {"exact_match__lowercase": True},
     Combined((CHRF, ExactMatch("x+", lowercase=True)))),
    ('exact-match:"[0-9]+km"', {}, ExactMatch("[0-9]+km")),
    ('exact-match:"a*2"', {}, ExactMatch("a*2")),
    ('exact-match:"a"*2+chrf', {}, Combined((ExactMatch("a"), CHRF), (2.0, 1.0))),
    ('exact-match:"""a"": (b)"', {}, ExactMatch('"a": (b)')),
    ('exact-match:say "a*2b"', {}, ExactMatch('say "a*2b"')),
    ("chrf*1e+3+edit*-.5", {}, Combined((CHRF, Edit()), (1000.0, -0.5))),
    ('cached:"chrf+edit"*2+chrf', {"cached__combined__chrf__order": 2},
     Combined((Cached(Combined((minrisk.ChrF(2), Edit()))), CHRF), (2.0, 1.0))),
    ('combined:"chrf+edit"*0.1', {"combined__by": "rank"},
     Combined((Combined((CHRF, Edit()), by="rank"),), (0.1,))),
])
def test_names_are_taken_apart(name, options, made):
    metric = METRICS.make(name, **options)
    assert metric == made
    assert type(metric) is type(made)
    assert pickle.loads(pickle.dumps(metric)) == metric


_TERMS = st.deferred(lambda: st.one_of(
    st.sampled_from([CHRF, Edit()]), _SUMS, st.builds(Symmetric, _TERMS),
    st.builds(Cached, _TERMS)))
_SUMS = st.lists(st.tuples(_TERMS, st.floats(-1e9, 1e9)), min_size=1, max_size=3).map(
    lambda terms: Combined(*map(tuple, zip(*terms, strict=True)))).filter(
    lambda metric: metric.weights != (1.0,))  # a lone metric is named as itself


@given(_SUMS)
def test_the_name_of_a_metric_is_read_back(metric):
    assert METRICS.make(metric.name) == metric


@given(st.text())
def test_quoted_arguments_are_any_text(text):
    recipe = METRICS.recipe(f"chrf+exact-match:{quoted(text)}*2")
    assert recipe.inner["exact-match"].given == {"pattern": text}


@pytest.mark.parametrize(("name", "options", "message"), [
    ("chrf+nothing", {}, "'nothing'"),
    ("cached:", {}, "''"),
    ("cached", {}, "cached:comet"),
    ("combined", {}, r"chrf\*0.5\+comet"),
    ("chrf:6", {}, "'chrf' .* colon"),
    ("chrf*1.2.3", {}, "'1.2.3'"),
    ("chrf*2edit", {}, "'2edit'"),
    ("exact-match:[0-9]+km", {}, r'write exact-match:"\[0-9\]\+km"'),
    ("comet:/models/comet+v2", {}, r'write comet:"/models/comet\+v2"'),
    ("exact-match:a*2", {}, r'write exact-match:"a\*2" or exact-match:"a"\*2'),
    ("chrf+exact-match:a+edit*2", {}, r'write chrf\+exact-match:"a\+edit\*2" or '),
    ('exact-match:"a": (b)', {}, r'write exact-match:"""a"": \(b\)"'),
    ('exact-match:"a', {}, r'write exact-match:"""a"'),
    ('chrf"', {}, "complete name"),
    ("chrf+edit", {"order": 3}, r"'chrf\+edit': 'order'"),
    ("chrf+edit", {"chrf__ordr": 3}, "'chrf': 'ordr'"),
    ("python", {}, "function="),
])
def test_names_that_make_no_metric_are_told(name, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        METRICS.make(name, **options)


@pytest.mark.parametrize(("metrics", "options", "message"), [
    ((), {}, "one metric"),
    ((CHRF,), {"weights": (1.0, 2.0)}, "1 weights .* 2"),
    ((CHRF,), {"weights": (float("inf"),)}, "weights .*inf")])
def test_combinations_that_make_no_sense_are_refused(metrics, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        Combined(metrics, **options)


def test_the_command_line_fills_the_options_of_inner_metrics(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a cat", "the cat", "cats"]})
    config = tmp_path / "run.yaml"
    config.write_text("metric: {name: chrf*0.5+symmetric:edit, by: rank, chrf: {order: 4},"
                      " symmetric: {edit: {unit: word}}}\n")
    flags = run("decode", samples, "--metric", "chrf*0.5+symmetric:edit", "--metric.by", "rank",
                "--metric.chrf.order", "4", "--metric.symmetric.edit.unit", "word", "--utilities")
    made = Combined((minrisk.ChrF(4), Symmetric(Edit("word"))), (0.5, 1.0), "rank")
    expected = minrisk.decode(["a cat", "the cat", "cats"], metric=made)
    assert_close(flags.records[0]["utilities"], expected.utility)
    shown = flags.err.split("\n")[0]
    for part in ("|metric:chrf*0.5+symmetric:edit|", "|metric.chrf.order:4|", "|metric.by:rank|",
                 "|metric.symmetric.edit.unit:word|", "|metric.weights:(0.5, 1.0)|"):
        assert part in shown
    assert run("decode", samples, "--config", config).err.split("\n")[0] == shown


def test_an_unknown_option_of_an_inner_metric_is_told(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a"]})
    result = run("decode", samples, "--metric", "chrf+edit", "--metric.order", "4")
    assert result.code == 2
    assert "--metric.chrf.order" in result.err
    assert "Traceback" not in result.err


def test_a_description_names_every_option_of_every_metric():
    text = parts_signature(metric=Cached(Combined((CHRF, minrisk.ChrF(2)))))
    assert text.startswith('metric:cached:"chrf+chrf"|')
    assert "|metric.combined.chrf.order:6|" in text
    assert "|metric.combined.chrf2.order:2|" in text


def test_the_source_reaches_who_needs_it():
    metric = Combined((CHRF, Counting()))
    assert metric.needs_source
    ranking = minrisk.decode(["a", "bb"], source="abc", metric=metric)
    plain = minrisk.decode(["a", "bb"], metric=CHRF)
    assert_close(ranking.utility - plain.utility, [2.5, 3.5], scale=100)


def test_a_wrapped_metric_in_a_cascade():
    samples = ["the cat sat", "the cat sat down", "a cat sat", "dogs"]
    ranking = minrisk.decode(samples, metric="cached:chrf", strategy="coarse-to-fine",
                             coarse="edit", keep=2)
    assert np.isnan(ranking.utility).sum() == 2
    check_metric(Cached(CHRF))
