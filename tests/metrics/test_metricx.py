"""MetricX has the official errors, negated."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")

import minrisk
from commands import run, write
from metricx_model import expand
from minrisk._core.errors import MissingExtra
from minrisk._core.metric import Ability
from minrisk._core.process import progress_listener
from minrisk.metrics.neural.metricx import MetricX, MetricXQE
from minrisk.testing import check_metric, check_strategy
from tolerance import SINGLE, assert_close

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


@pytest.mark.parametrize("strategy", [minrisk.Standard, minrisk.Aggregate, minrisk.Rerank])
def test_without_references_every_strategy_ranks_by_quality(metricx, strategy):
    ranking = strategy(metricx(MetricXQE)).rank([minrisk.Segment(HYPS, source=SOURCES[0])])[0]
    assert_close(-ranking.utility, GOLDEN["quality"]["24"][0], "fp32", ulps=ULPS)


@pytest.mark.parametrize("version", ["24", "23"])
def test_a_text_that_is_too_long_is_cut_as_officially_and_told(metricx, version):
    metric = metricx(version=version)
    with pytest.warns(UserWarning, match="1 of 2 pairs have more tokens than the model takes"):
        found = scores(metric, [GOLDEN["long"], "short"], REFS[:1])
    assert_close(-found[0, 0], GOLDEN["long_scores"][version], "fp32", ulps=ULPS)


def test_it_keeps_the_contract(metricx):
    check_metric(metricx(), rtol=SINGLE)
    check_metric(metricx(MetricXQE), rtol=SINGLE)
    segments = [minrisk.Segment(HYPS[i : i + 4], source=SOURCES[0], position=i) for i in range(3)]
    check_strategy(minrisk.Standard(metricx(tokens=1)), segments)


def test_the_fine_stage_of_a_cascade_is_exact_for_what_it_keeps(metricx):
    strategy = minrisk.CoarseToFine(metricx(), coarse=minrisk.ChrF(), keep=3)
    ranking = strategy.rank([minrisk.Segment(HYPS, REFS, SOURCES[0])])[0]
    kept = np.flatnonzero(~np.isnan(ranking.utility))
    assert kept.size == 3
    theirs = -np.array(GOLDEN["scores"]["24"][0]).mean(1)
    assert_close(ranking.utility[kept], theirs[kept], "fp32", ulps=ULPS)


def test_averages_are_refused_with_what_to_do(metricx):
    assert Ability.AVERAGES not in metricx().abilities
    with pytest.raises(minrisk.InputError, match=r"averages references .*'metricx' does not"):
        minrisk.Aggregate(metricx()).rank([minrisk.Segment(["a", "b"], source="c")])


def test_what_reads_the_source_needs_it(metricx):
    for version in ("24", "23"):
        with pytest.raises(minrisk.InputError, match="'metricx-qe' needs the source"):
            minrisk.decode(["a", "b"], metric=metricx(MetricXQE, version=version))
    with pytest.raises(minrisk.InputError, match="'metricx' needs the source"):
        minrisk.decode(["a", "b"], metric=metricx())
    assert minrisk.decode(["a", "b"], metric=metricx(version="23")).utility.max() <= 0


def test_progress_counts_pairs(metricx):
    told = []
    with progress_listener(lambda *event: told.append(event)):
        scores(metricx())
    assert told[-1] == ("pairs scored", len(HYPS) * len(REFS), len(HYPS) * len(REFS))


def test_decode_from_the_command_line(model, tmp_path):
    samples = write(tmp_path / "x.jsonl", {"source": SOURCES[0], "samples": HYPS[:3]})
    result = run("decode", samples, "--metric", "metricx", "--metric.model", model,
                 "--metric.tokenizer", DATA / "tokenizer", "--metric.device", "cpu")
    assert result.code == 0, result.err
    assert result.records[0]["text"] in HYPS


class Malicious:
    def __reduce__(self):
        return os.system, ("touch executed",)


def test_a_malicious_model_is_told_and_never_executed(metricx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_bytes((DATA / "tokenizer" / "config.json").read_bytes())
    torch.save({"shared.weight": Malicious()}, "pytorch_model.bin")
    with pytest.raises(minrisk.InputError, match=r"its pickle would call \w+\.system"):
        scores(metricx(model=str(tmp_path)))
    assert not Path("executed").exists()


def test_a_model_with_missing_weights_is_told(metricx, tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "config.json").write_bytes((DATA / "tokenizer" / "config.json").read_bytes())
    save_file({"shared.weight": torch.zeros(250112, 16)}, tmp_path / "model.safetensors",
              metadata={"format": "pt"})
    with pytest.raises(minrisk.InputError, match=r"lacks \d+ weights of MT5For"):
        scores(metricx(model=str(tmp_path)))


@pytest.mark.parametrize(("options", "message"), [
    ({"model": "owner/absent"}, "owner/absent: there is no such folder"),
    ({"tokenizer": "owner/absent"}, "neither the local cache nor the hub has its spiece.model"),
    ({"tokenizer": str(DATA)}, "found no spiece.model")])
def test_files_that_are_not_there_are_told(metricx, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        scores(metricx(**options))


def test_without_torch_the_install_line_is_given(metricx, monkeypatch):
    monkeypatch.setitem(sys.modules, "minrisk.metrics.neural.metricx.scorer", None)
    with pytest.raises(MissingExtra, match=r"pip install 'minrisk\[neural\]'"):
        scores(metricx())
