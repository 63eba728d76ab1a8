"""`minrisk.decode` and its results as a Python user meets them."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk._core.errors import MissingExtra, needs_extra
from minrisk._core.metric import Metric
from minrisk._core.registry import METRICS
from minrisk.metrics.embedding import Embedding

SAMPLES = ["The cat sat on the mat.", "A cat sat on the mat.", "The dog sat.", "Cats sit on mats."]


def overlap(hypothesis: str, reference: str) -> int:
    return len(set(hypothesis) & set(reference))


RANDOM = [("n-by-s", {"subset": 3}), ("aggregate", {"groups": 3}), ("adaptive", {"budget": 0.3}),
          ("prune", {"start": 2}), ("low-rank", {"budget": 0.5})]


@pytest.mark.parametrize(("strategy", "options"), RANDOM, ids=[name for name, _ in RANDOM])
def test_a_loop_is_what_the_command_line_gives(strategy, options, tmp_path):
    rng = np.random.default_rng(0)
    words = ["the", "a", "cat", "dog", "sat", "on", "mat", "rug", "old", "red", "big"]
    segments = [{"samples": [" ".join(rng.choice(words, 5)) for _ in range(12)],
                 "counts": rng.integers(1, 4, 12).tolist()} for _ in range(6)]
    path = write(tmp_path / "in.jsonl", *segments)
    flags = [f"--{name}={value}" for name, value in options.items()]
    told = run("decode", path, "--strategy", strategy, *flags, "--utilities").records
    found = [minrisk.decode(segment["samples"], counts=segment["counts"], position=index,
                            strategy=strategy, **options)
             for index, segment in enumerate(segments)]
    assert [ranking.text for ranking in found] == [record["text"] for record in told]
    for ranking, record in zip(found, told, strict=True):
        expected = [np.nan if value is None else value for value in record["utilities"]]
        np.testing.assert_array_equal(ranking.utility, expected)
    again = [minrisk.decode(segment["samples"], counts=segment["counts"], strategy=strategy,
                            **options) for segment in segments]
    assert again[0] == found[0]
    assert again != found  # all with the random stream of the first


@pytest.mark.parametrize("metric", [None, "chrf", minrisk.ChrF, minrisk.ChrF(), overlap,
                                    lambda hyp, ref: 1.0 * overlap(hyp, ref)],
                         ids=["default", "name", "class", "object", "function", "lambda"])
def test_a_metric_comes_in_any_form(metric):
    assert minrisk.decode(SAMPLES, metric=metric).best in (0, 1)
    score = minrisk.score(SAMPLES, SAMPLES, metric=metric or "chrf")
    assert score.value == pytest.approx(score.sentences.mean())


@pytest.mark.parametrize("strategy", [None, "standard", minrisk.Standard, minrisk.Standard("chrf")],
                         ids=["default", "name", "class", "object"])
def test_a_strategy_comes_in_any_form(strategy):
    assert minrisk.decode(SAMPLES, strategy=strategy).text == SAMPLES[0]


def test_a_class_takes_the_options_of_its_name():
    found = minrisk.decode(SAMPLES, strategy=minrisk.NByS, subset=2, metric="bleu")
    assert found == minrisk.decode(SAMPLES, strategy="n-by-s", subset=2, metric="bleu")


@pytest.mark.parametrize(("options", "message"), [
    ({"metric": 3}, "metric must be a metric"),
    ({"metric": "chrv"}, "'chrf'?"),
    ({"metric": dict}, "metric must be a metric"),
    ({"strategy": object()}, "got <object"),
    ({"strategy": dict}, "got <class 'dict'>"),
    ({"strategy": 3}, "strategy must be a strategy"),
    ({"strategy": minrisk.NByS}, "subset"),
    ({"strategy": minrisk.NByS, "sub": 1}, "'subset'?"),
    ({"strategy": minrisk.Standard("chrf"), "metric": "bleu"}, "metric"),
    ({"position": -1}, "position must"),
    ({"counts": [1]}, "4 counts"),
    ({"keep": 1}, "'keep'; it belongs to strategy aggregate-to-fine"),
    ({"strategy": minrisk.Standard, "keep": 1}, "aggregate-to-"),
    ({"kep": 1}, "'kep'"),
    ({"word_order": 2}, "minrisk.make_metric('chrf', word_order=2)"),
    ({"weights": "uniform"}, "'uniform'"),
])
def test_wrong_arguments_get_our_errors(options, message):
    with pytest.raises(minrisk.InputError) as error:
        minrisk.decode(SAMPLES, **options)
    assert message in str(error.value)


@pytest.mark.parametrize(("args", "options", "message"), [
    ((3, ["a"]), {}, "systems must"),
    (("a", ["a"]), {}, "systems must"),
    ((["a"], "a"), {}, "references must"),
    ((["a"], 3), {}, "references must"),
    ((["a"], [3]), {}, "line 1: references"),
    (({"x": ["a", 3]}, ["a", "b"]), {}, "x must be strings"),
    ((["a"], ["a"]), {"resamples": 0.5}, "resamples must"),
    ((["a"], ["a"]), {"seed": -1}, "seed must"),
    ((["a"], ["a"]), {"metric": 3}, "metric must be a metric"),
    ((["a"], ["a", "b"]), {}, "systems has 1 lines"),
])
def test_wrong_arguments_of_score_get_our_errors(args, options, message):
    with pytest.raises(minrisk.InputError) as error:
        minrisk.score(*args, **options)
    assert message in str(error.value)


def test_one_output_has_one_score():
    found = minrisk.score(["a b"], ["a c"])
    assert found == minrisk.score({"x": ["a b"]}, ["a c"])["x"]
    assert found.value == found.sentences[0] == 25.0
    assert found.signature.startswith("chrf|nrefs:1|case:mixed|eff:yes|nc:6|")
    assert repr(found) == "Score(25, of 1 sentences)"
    assert "<code>chrf|nrefs:1" in found._repr_html_()


def test_a_score_with_resamples_says_how_sure_it_is():
    lines = [f"{word} cat" for word in ("a", "the", "one", "my", "your", "his", "her", "its")]
    systems = {"base": lines[::-1], "same": lines}
    found = minrisk.score(systems, lines, resamples=50)
    assert found["same"].signature.endswith(f"|bs:50|ar:50|seed:12345|{TAIL}")
    assert "± " in repr(found["base"])
    assert "p = " in repr(found["same"])
    assert found == minrisk.score(systems, lines, resamples=50)
    assert found != minrisk.score(systems, lines, resamples=50, seed=1)


TAIL = minrisk.score(["a"], ["a"]).signature.partition("nrefs:1|")[2]


def test_a_ranking_says_what_was_chosen_and_how():
    ranking = minrisk.decode(SAMPLES, strategy="aggregate-to-fine", keep=2)
    assert ranking.text == SAMPLES[0]
    strategy = minrisk.make_strategy("aggregate-to-fine", keep=2)
    assert ranking.signature == minrisk.signature(strategy)
    assert repr(ranking) == ("Ranking(text='The cat sat on the mat.', index=0, utility=59.191, "
                             "runner_up='A cat sat on the mat.' (56.5524), of 4)")


def test_the_runner_up_is_another_text():
    ranking = minrisk.decode(["a cat", "a cat", "dogs"])
    assert "runner_up='dogs'" in repr(ranking)
    assert "runner_up" not in repr(minrisk.decode(["a cat", "a cat"]))


def test_a_ranking_without_texts_says_so():
    [ranking] = minrisk.Standard("chrf").rank([minrisk.Segment(SAMPLES)])
    assert repr(ranking).startswith("Ranking(index=0, utility=59.191, runner_up=1 (56.55")
    with pytest.raises(minrisk.InputError, match="texts"):
        ranking.text  # noqa: B018


def test_a_notebook_shows_a_table_in_which_nothing_is_markup():
    shown = minrisk.decode(["<b>bold</b>", "<i>", "x"])._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>bold" not in shown
    assert "strategy:standard|metric:chrf" in shown
    assert shown.count("<tr>") == 4


def test_rankings_compare_equal_when_they_are():
    one = minrisk.decode(SAMPLES, strategy="aggregate-to-fine", keep=2)  # two have no utility
    assert one == minrisk.decode(SAMPLES, strategy="aggregate-to-fine", keep=2)
    assert one != minrisk.decode(SAMPLES, strategy="aggregate-to-fine", keep=3)
    assert one != minrisk.decode(SAMPLES)
    assert one != replace(one, pairs=0)
    assert one != "a ranking"
    assert pickle.loads(pickle.dumps(one)) == one
    sure = minrisk.Confident(minrisk.Standard("chrf"))
    alone = minrisk.decode(["a"], strategy=sure)  # whose margin is NaN
    assert alone == minrisk.decode(["a"], strategy=sure) != minrisk.decode(["a"])


@dataclass(frozen=True)
class Loading(Metric[Any]):
    """Counts how often its model is loaded."""

    name: ClassVar[str] = "loading"
    loads: ClassVar[list[str]] = []
    model: str = "small"

    def features(self, texts):
        if "_loaded" not in self.__dict__:
            object.__setattr__(self, "_loaded", True)
            self.loads.append(self.model)
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs[None])


def test_a_loop_that_names_a_metric_loads_its_model_once(monkeypatch):
    monkeypatch.setitem(METRICS.builtin, "loading", "test_api:Loading")
    Loading.loads.clear()
    for _ in range(3):
        minrisk.decode(SAMPLES, metric="loading:large")
        minrisk.decode(SAMPLES, metric=minrisk.make_metric("loading", model="tiny"))
        minrisk.decode(SAMPLES, metric="chrf", strategy="coarse-to-fine", coarse="loading:large")
    assert Loading.loads == ["large", "tiny"]


def test_metrics_by_name_take_options():
    plus = minrisk.make_metric("chrf", word_order=2)
    assert plus == minrisk.ChrF(word_order=2)
    assert plus is minrisk.make_metric("chrf", word_order=2)
    both = minrisk.make_metric("chrf*0.5+symmetric:embedding", chrf__order=4)
    assert both.metrics == (minrisk.ChrF(order=4), minrisk.Symmetric(Embedding()))
    with pytest.raises(minrisk.InputError, match="'word_order'"):
        minrisk.make_metric("chrf", word_oder=2)


def test_a_ranking_can_become_json():
    ranking = minrisk.decode(SAMPLES)
    line = json.dumps({"text": ranking.text, "index": ranking.best, "signature": ranking.signature})
    assert json.loads(line)["text"] == SAMPLES[0]


def test_a_package_that_fails_to_import_is_told_with_its_reason():
    with (pytest.raises(MissingExtra, match="numpy 9") as raised,
          needs_extra("the metric", "comet")):
        raise ImportError("needs numpy 9")
    assert "None" not in str(raised.value)
