"""BLEURT-20 has the scores of its PyTorch package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")

from minrisk.metrics.neural.bleurt import Bleurt
from tolerance import assert_close

DATA = Path(__file__).parent / "bleurt"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))
HYPS, REFS = GOLDEN["hypotheses"], GOLDEN["references"]


def bleurt(**options) -> Bleurt:
    return Bleurt(**{"model": str(DATA / "model"), "device": "cpu"} | options)


def scores(metric: Bleurt, hyps=HYPS, refs=REFS):
    return metric.scores(metric.features(hyps), metric.features(refs))


@pytest.mark.parametrize("tokens", [1, 4096])
def test_scores_equal_those_of_its_package(tokens):
    """In batches of one and in large ones."""
    assert_close(scores(bleurt(tokens=tokens)), GOLDEN["scores"], "fp32")


def test_weights_in_safetensors_score_the_same(tmp_path):
    from safetensors.torch import save_file

    shutil.copytree(DATA / "model", tmp_path / "model")
    weights = torch.load(tmp_path / "model" / "pytorch_model.bin", weights_only=True)
    (tmp_path / "model" / "pytorch_model.bin").unlink()
    save_file(weights, tmp_path / "model" / "model.safetensors")
    found = scores(bleurt(model=str(tmp_path / "model")))
    assert_close(found, GOLDEN["scores"], "fp32")


@pytest.mark.parametrize(("ref", "hyp"), [(300, 5), (5, 300), (300, 300), (200, 100), (100, 153)])
def test_what_is_too_long_loses_the_end_of_its_longer_text(ref, hyp):
    """Token by token, as BLEURT itself does it."""
    reader = bleurt()._scorer
    ids, cut = reader._joined(np.full(ref, 7), np.full(hyp, 9))
    while ref + hyp > 253:
        ref, hyp = (ref - 1, hyp) if ref > hyp else (ref, hyp - 1)
    assert (np.sum(ids == 7), np.sum(ids == 9)) == (ref, hyp)
    assert (ids.size == 256) == (ref + hyp == 253)
    assert cut == (ids.size == 256 and (ref, hyp) != (100, 153))
