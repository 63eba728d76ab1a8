"""What holds for every metric that has a name, with models as small as can be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # so that nothing waits for a network

import minrisk
from minrisk.metric import Aggregates, AnyMetric
from minrisk.registry import METRICS
from minrisk.testing import TEXTS, cases, check_metric
from tolerance import SINGLE, assert_close

HERE = Path(__file__).parent
LONG = "A long story without an end, " * 150
LITTLE = ["The cat sat on the mat.", "", " ", "a cat", "日本語のテキスト。", "👩‍👩‍👧 emoji"]
SOURCE = "Le chat."
PROGRAM = ("import json, sys\n"
           "for line in sys.stdin:\n"
           "    pair = json.loads(line)\n"
           "    print(abs(len(pair['hypothesis']) - len(pair['reference'])), flush=True)\n")

pytestmark = pytest.mark.filterwarnings("ignore:.*more (than .* )?tokens")  # long texts are cut


def overlap(hypothesis: str, reference: str) -> int:
    return len(set(hypothesis) & set(reference))


def comet(name: str, variant: str, encoder: str) -> AnyMetric:
    pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")
    return METRICS.make(name, model=str(HERE / "comet" / "checkpoints" / variant), device="cpu",
                        encoder=str(HERE / "comet" / "encoders" / encoder))


def neural(name: str, **options: object) -> AnyMetric:
    pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    return METRICS.make(name, device="cpu", **options)


def metricx(name: str, folder: Path) -> AnyMetric:
    metric = neural(name, model=str(folder), tokenizer=str(HERE / "metricx" / "tokenizer"))
    from metricx.expand import expand

    expand(folder)
    return metric


def command(folder: Path) -> AnyMetric:
    (folder / "program.py").write_text(PROGRAM)
    return METRICS.make("command", command=f"{sys.executable} -I {folder / 'program.py'}",
                        error=True)


def evaluate(folder: Path) -> AnyMetric:
    pytest.importorskip("evaluate", reason="needs evaluate, which is no light package")
    from test_foreign_metrics import SCRIPT

    (folder / "overlap").mkdir()
    (folder / "overlap" / "overlap.py").write_text(SCRIPT)
    return METRICS.make(f"evaluate:{folder / 'overlap'}", run_code=True, result="mean")


MADE: dict[str, Callable[[Path], AnyMetric]] = {
    **{name: lambda _, name=name: METRICS.make(name)
       for name in ("chrf", "bleu", "ter", "rouge", "rouge-l", "edit", "exact-match", "embedding")},
    "comet": lambda _: comet("comet", "xlmr_mix_sparsemax", "xlm-roberta"),
    "comet-qe": lambda _: comet("comet-qe", "referenceless", "xlm-roberta-short"),
    "comet-kiwi": lambda _: comet("comet-kiwi", "kiwi", "xlm-roberta"),
    "xcomet": lambda _: comet("xcomet", "xcomet", "xlm-roberta-xl"),
    "mqm": lambda _: METRICS.make("mqm", device="numpy"),
    "bertscore": lambda _: neural("bertscore", model=str(HERE / "bertscore" / "bert"), layer=2),
    "metricx": lambda folder: metricx("metricx", folder),
    "metricx-qe": lambda folder: metricx("metricx-qe", folder),
    "bleurt": lambda _: neural("bleurt", model=str(HERE / "bleurt" / "model")),
    "python": lambda _: METRICS.make(f"python:{__name__}:overlap"),
    "command": command,
    "evaluate": evaluate,
    "combined": lambda _: METRICS.make("chrf*0.5+exact-match*-2"),
    "symmetric": lambda _: METRICS.make("symmetric:bleu"),
    "cached": lambda folder: METRICS.make("cached:rouge-l", path=str(folder / "scores.db")),
}


@pytest.fixture(scope="module", params=MADE)
def metric(request, tmp_path_factory) -> AnyMetric:
    return MADE[request.param](tmp_path_factory.mktemp(request.param))


def scores(metric: AnyMetric, hyps: list[str], refs: list[str]):
    return metric.scores(*(metric.features(texts) for texts in (hyps, refs, [SOURCE])))


def assert_near(one, other):
    """As near as single precision is, where a model computes."""
    assert_close(one, other, "fp32")


def test_no_metric_is_left_out():
    assert set(MADE) == set(METRICS.builtin)


def test_the_contract_holds(metric):
    check_metric(metric, cases(count=2), rtol=SINGLE)


def test_empty_texts_have_scores(metric):
    found = scores(metric, ["", " ", "\n"], ["", "a cat", "\t"])
    assert found.shape == (3, 3)
    assert np.all(np.isfinite(found))


def test_a_very_long_text_has_a_score_and_changes_no_other(metric):
    texts = [LONG, *LITTLE[:3]]
    found = scores(metric, texts, texts)
    assert np.all(np.isfinite(found))
    assert_near(found[1:, 1:], scores(metric, texts[1:], texts[1:]))


def test_a_pair_scores_the_same_alone_and_in_any_batch(metric):
    together = scores(metric, LITTLE, LITTLE)
    alone = [[scores(metric, [hyp], [ref])[0, 0] for ref in LITTLE] for hyp in LITTLE]
    assert_near(together, alone)


@pytest.mark.parametrize("strategy", [minrisk.Standard, minrisk.Aggregate])
def test_a_weight_is_as_many_references(metric, strategy):
    """Also through averages, which a metric that has none refuses."""
    refs, weights = list(TEXTS[:4]), [3, 1, 0, 2]
    copies = [ref for ref, weight in zip(refs, weights, strict=True) for _ in range(weight)]
    weighted = minrisk.Segment(LITTLE, refs, SOURCE, weights)
    repeated = minrisk.Segment(LITTLE, copies, SOURCE)
    if strategy is minrisk.Aggregate and not isinstance(metric, Aggregates):
        with pytest.raises(minrisk.InputError, match="cannot average references; use the"):
            strategy(metric).rank([weighted])
        return
    one, other = (strategy(metric).rank([segment])[0] for segment in (weighted, repeated))
    assert_near(one.utility, other.utility)


NEURAL = ["comet", "comet-qe", "comet-kiwi", "xcomet", "bertscore", "metricx", "metricx-qe",
          "bleurt"]


@pytest.mark.parametrize("metric", NEURAL, indirect=True)
def test_too_little_memory_is_told_with_the_option_to_change(metric, monkeypatch):
    torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")

    def linear(self, given):
        raise torch.OutOfMemoryError("CUDA out of memory")

    scores(metric, ["a"], ["b"])
    monkeypatch.setattr(torch.nn.Linear, "forward", linear)
    with pytest.raises(minrisk.InputError, match=r"not enough memory for 4096 tokens at once; "
                                                 r"lower the option tokens \(--metric.tokens\)"):
        scores(metric, ["a"], ["b"])


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
@pytest.mark.parametrize("metric", NEURAL, indirect=True)
def test_a_device_that_is_not_there_is_told(metric, device):
    with pytest.raises(minrisk.InputError, match=f"device '{device}' cannot be used: .*; wanted"):
        scores(replace(metric, device=device), ["a"], ["b"])


@pytest.mark.parametrize(("name", "options", "message"), [
    ("bertscore", {"dtype": "fp8"}, "unknown dtype of bertscore: 'fp8'; known: auto, bf16"),
    ("bertscore", {"part": "f2"}, "unknown part of bertscore: 'f2'; known: f1, precision, recall"),
    ("bertscore", {"tokens": 0}, "bertscore: 0 tokens at once; a number from 1 on"),
    ("metricx", {"version": "25"}, "unknown version of metricx: '25'; known: 23, 24"),
    ("metricx", {"model": "google/metricx-23-xl-v2p0"}, "give it version 23"),
    ("metricx-qe", {"version": "23"}, "give it version 24"),
    ("metricx", {"model": "google/metricx-23-qe-xl-v2p0", "version": "23"},
     "use it as --metric metricx-qe"),
    ("metricx-qe", {"model": "google/metricx-23-xl-v2p0", "version": "23"},
     "use it as --metric metricx$"),
    ("comet", {"aggregation": "media"}, "unknown aggregation of comet: .* did you mean 'mean'"),
    ("comet", {"memory": 0.0}, "comet: 0.0 gigabytes of memory; a positive number"),
    ("bleu", {"tokenize": "13b"}, "unknown tokenize of bleu: '13b'; did you mean '13a'"),
    ("bleu", {"smooth_method": "x"}, "unknown smooth_method of bleu: 'x'; known: add-k, exp"),
    ("edit", {"unit": "line"}, "unknown unit of edit: 'line'; known: character, word"),
    ("exact-match", {"pick": "middle"}, "unknown pick of exact-match: 'middle'; known: first"),
    ("chrf+edit", {"by": "vote"}, r"unknown by of chrf\+edit: 'vote'; known: rank, score"),
    ("command", {"command": "cat", "timeout": float("nan")}, "timeout nan"),
])
def test_an_option_that_makes_no_sense_is_told(name, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        METRICS.make(name, **options)
