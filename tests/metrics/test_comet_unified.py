"""Models that read source, hypothesis and reference together have the official scores."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")
pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")

import minrisk
from comet_models import CHECKPOINTS, GOLDEN, enter_hub
from commands import run, write
from minrisk._core.metric import Ability
from minrisk.metrics.comet import CometKiwi, XComet
from minrisk.metrics.comet.unified_scorer import spans_score
from tolerance import assert_close

UNIFIED = {name: golden for name, golden in GOLDEN["variants"].items() if "joint" in golden}
WITH_REFERENCES = [name for name, golden in UNIFIED.items() if "scores" in golden]
TEXTS, GRID = GOLDEN["texts"], GOLDEN["grid"]
HYPS, REFS, SOURCES = ([TEXTS[i] for i in GRID[k]] for k in ("hypotheses", "references", "sources"))


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    enter_hub(tmp_path, monkeypatch)


@pytest.fixture
def _cut_quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts that are cut off are wanted here
        yield


def xcomet(variant: str = "xcomet", **options) -> XComet:
    return XComet(**{"model": str(CHECKPOINTS / variant), "device": "cpu"} | options)


def kiwi(variant: str = "kiwi", **options) -> CometKiwi:
    return CometKiwi(**{"model": str(CHECKPOINTS / variant), "device": "cpu"} | options)


def scores(metric: XComet, hyps=HYPS, refs=REFS, source=SOURCES[0]):
    return metric.scores(*(metric.features(texts) for texts in (hyps, refs, [source])))


@pytest.mark.usefixtures("_cut_quietly")
@pytest.mark.parametrize("variant", WITH_REFERENCES)
@pytest.mark.parametrize("tokens", [1, 4096])
def test_scores_equal_the_official_ones(variant, tokens):
    """In batches of one and in large ones."""
    metric = xcomet(variant, tokens=tokens)
    for source, theirs in zip(SOURCES, UNIFIED[variant]["scores"], strict=True):
        assert_close(scores(metric, source=source), theirs, "fp32")


@pytest.mark.usefixtures("_cut_quietly")
@pytest.mark.parametrize("variant", WITH_REFERENCES)
def test_awkward_texts_score_as_officially(variant):
    ours = scores(xcomet(variant), GOLDEN["edges"], REFS[:1])[:, 0]
    assert_close(ours, UNIFIED[variant]["edge_scores"], "fp32")


@pytest.mark.usefixtures("_cut_quietly")
@pytest.mark.parametrize("variant", UNIFIED)
def test_quality_equals_the_official_one(variant):
    """Also that of models which could read references."""
    metric = kiwi(variant)
    assert Ability.QUALITY in metric.abilities
    for source, theirs in zip(SOURCES, UNIFIED[variant]["quality"], strict=True):
        ours = metric.quality(metric.features(HYPS), metric.features([source]))
        assert_close(ours, theirs, "fp32")


@pytest.mark.usefixtures("_cut_quietly")
def test_error_spans_matter_in_the_golden_scores(monkeypatch):
    """Or else they would not be tested."""
    monkeypatch.setattr("minrisk.metrics.comet.unified_scorer.spans_score",
                        lambda tags, lengths: 1.0)
    apart = np.array(UNIFIED["xcomet"]["scores"][0]) - scores(xcomet())
    assert len(set(np.round(apart / 0.22 * 25).ravel())) > 3


def test_spans_count_once_by_their_first_token_and_only_if_they_end():
    labels = [[0, 1, 2, 0, 3, 0, 0], [0, 2, 2, 2, 0, 2, 2], [3, 0, 3, 0, 3, 0, 0], [0] * 7]
    tags = torch.nn.functional.one_hot(torch.tensor(labels), 4).float()
    found = spans_score(tags, [7, 7, 7, 7])
    assert_close(found, 1 - torch.tensor([11.0, 5.0, 25.0, 0.0]) / 25, "fp32")
    assert_close(spans_score(tags, [5, 4, 1, 0]), [0.96, 1, 1, 1], "fp32")


@pytest.mark.usefixtures("_cut_quietly")
def test_half_precision_is_near():
    exact, half = scores(xcomet()), scores(xcomet(dtype="bf16"))
    apart = np.sort(np.abs(exact - half), axis=None)
    assert apart[-1] > 0
    assert_close(apart[: apart.size * 9 // 10], 0, "bf16", scale=1)  # in the others a tag changed


@pytest.mark.parametrize("name", ["xcomet", "comet-kiwi"])
def test_decode_from_the_command_line_with_a_converted_model(name, tmp_path):
    assert run("comet", "convert", CHECKPOINTS / "xcomet", "converted").code == 0
    samples = write(tmp_path / "x.jsonl", {"source": SOURCES[0], "samples": HYPS[:3]})
    results = [run("decode", samples, "--metric", name, "--metric.model", model,
                   "--metric.device", "cpu", "--quiet")
               for model in (CHECKPOINTS / "xcomet", "converted")]
    assert results[0].code == 0, results[0].err
    [one], [other] = (result.records for result in results)
    assert one["text"] == other["text"]
    assert_close(one["utility"], other["utility"], "fp32")


@pytest.mark.parametrize(("metric", "message"), [
    (kiwi("xlmr_layer"), "'comet'"),
    (xcomet("referenceless"), "'comet-qe'"),
    (xcomet("kiwi"), "'comet-kiwi'")])
def test_a_model_of_another_class_is_told(metric, message):
    with pytest.raises(minrisk.InputError, match=message):
        metric.scores(*[metric.features(["a"])] * 3)


@pytest.mark.parametrize(("change", "message"), [
    ({"word_layer": 9}, "layer 9"), ({"encoder_model": "BERT"}, "'BERT'"),
    ({"class_identifier": "ranking_metric"}, "'ranking_metric'"),
    ({"input_segments": ["mt", "ref"]}, "mt, ref")])
def test_a_configuration_that_cannot_be_read_is_told(change, message, tmp_path):
    run("comet", "convert", CHECKPOINTS / "xcomet", "converted")
    file = tmp_path / "converted" / "minrisk.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | change))
    with pytest.raises(minrisk.InputError, match=message):
        scores(xcomet(model="converted"))
