"""XCOMET-lite, in the format that it is published in, has the scores of its own class."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")

from commands import run
from minrisk.metrics.comet import CometKiwi, XComet
from tolerance import assert_close

DATA = Path(__file__).parent / "xcomet_lite"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))
HYPS, REFS, SOURCES = (GOLDEN[name] for name in ("hypotheses", "references", "sources"))

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*COMET does not see the rest"),  # wanted here
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),  # by DeBERTa's file
]


def lite(kind=XComet, **options):
    files = {"model": str(DATA / "model"), "encoder": str(DATA / "encoder")}
    return kind(**files | {"device": "cpu"} | options)


def scores(metric: XComet, source=SOURCES[0]):
    return metric.scores(*(metric.features(texts) for texts in (HYPS, REFS, [source])))


@pytest.mark.parametrize("tokens", [1, 4096])
def test_scores_equal_those_of_its_own_class(tokens):
    """In batches of one and in large ones."""
    metric = lite(tokens=tokens)
    for source, theirs in zip(SOURCES, GOLDEN["scores"], strict=True):
        assert_close(scores(metric, source), theirs, "fp32")


def test_quality_equals_that_of_its_own_class():
    metric = lite(CometKiwi)
    for source, theirs in zip(SOURCES, GOLDEN["quality"], strict=True):
        ours = metric.quality(metric.features(HYPS), metric.features([source]))
        assert_close(ours, theirs, "fp32")


def test_sentencepiece_gives_the_tokens_that_the_model_knows():
    ours = lite()._embedder.encoder.tokenize(HYPS)
    assert [own.tolist() for own in ours] == GOLDEN["token_ids"]


def test_a_converted_copy_scores_the_same(tmp_path):
    out = tmp_path / "copy"
    assert run("comet", "convert", DATA / "model", out, "--encoder", DATA / "encoder").code == 0
    assert_close(scores(lite(model=str(out), encoder=None)), scores(lite()), "fp32")


def test_the_defaults_are_those_of_the_published_model(tmp_path):
    shutil.copytree(DATA / "model", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}")
    spec = lite(model=str(tmp_path / "model"))._embedder.architecture
    assert spec.pretrained_model == "microsoft/mdeberta-v3-base"
    assert spec.hidden_sizes == (3072, 1024)
    assert spec.word_layer == 8
    assert not spec.layer_norm
