"""MetricX has the official errors, negated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")

import minrisk
from metricx_model import expand
from minrisk._core.metric import Ability
from minrisk.metrics.neural.metricx import MetricX, MetricXQE
from tolerance import assert_close

DATA = Path(__file__).parent / "metricx"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))
HYPS, REFS, SOURCES = (GOLDEN[name] for name in ("hypotheses", "references", "sources"))
ULPS = 1024  # the error is a difference of large hidden states: a plain model strays by a hundred


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("metricx")
    expand(folder)
    return folder


@pytest.fixture
def metricx(model):
    def make(kind=MetricX, **options) -> MetricX:
        chosen = {"model": str(model), "tokenizer": str(DATA / "tokenizer"), "device": "cpu"}
        return kind(**chosen | options)

    return make


def scores(metric: MetricX, hyps=HYPS, refs=REFS, source=SOURCES[0]):
    return metric.scores(*(metric.features(texts) for texts in (hyps, refs, [source])))


@pytest.mark.parametrize("version", ["24", "23"])
@pytest.mark.parametrize("tokens", [1, 4096])
def test_errors_equal_the_official_ones(metricx, version, tokens):
    """In batches of one and in large ones."""
    metric = metricx(version=version, tokens=tokens)
    assert metric.is_error
    for source, theirs in zip(SOURCES, GOLDEN["scores"][version], strict=True):
        assert_close(-scores(metric, source=source), theirs, "fp32", ulps=ULPS)


@pytest.mark.parametrize("version", ["24", "23"])
@pytest.mark.parametrize("tokens", [1, 4096])
def test_quality_equals_the_official_one(metricx, version, tokens):
    metric = metricx(MetricXQE, version=version, tokens=tokens)
    assert Ability.QUALITY in metric.abilities
    assert metric.is_error
    for source, theirs in zip(SOURCES, GOLDEN["quality"][version], strict=True):
        ours = metric.quality(metric.features(HYPS), metric.features([source]))
        assert_close(-ours, theirs, "fp32", ulps=ULPS)


@pytest.mark.parametrize("version", ["24", "23"])
def test_a_text_that_is_too_long_is_cut_as_officially_and_told(metricx, version):
    metric = metricx(version=version)
    with pytest.warns(UserWarning, match="1 of 2 .*tokens"):
        found = scores(metric, [GOLDEN["long"], "short"], REFS[:1])
    assert_close(-found[0, 0], GOLDEN["long_scores"][version], "fp32", ulps=ULPS)


def test_with_references_the_earlier_version_needs_no_source(metricx):
    assert minrisk.decode(["a", "b"], metric=metricx(version="23")).utility.max() <= 0


def test_a_model_with_missing_weights_is_told(metricx, tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "config.json").write_bytes((DATA / "tokenizer" / "config.json").read_bytes())
    save_file({"shared.weight": torch.zeros(250112, 16)}, tmp_path / "model.safetensors",
              metadata={"format": "pt"})
    with pytest.raises(minrisk.InputError, match=r"\d+ weights of MT5For"):
        scores(metricx(model=str(tmp_path)))


@pytest.mark.parametrize(("options", "message"), [
    ({"tokenizer": "owner/absent"}, "spiece.model"),
    ({"tokenizer": str(DATA)}, "spiece.model")])
def test_files_that_are_not_there_are_told(metricx, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(metricx(**options))
