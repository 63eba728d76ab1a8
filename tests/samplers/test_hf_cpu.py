"""Sampling on a CPU: faster layers draw what torch's own draw, and are left out where they fail."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")

import tiny_models
from minrisk._core.errors import InputError
from minrisk._torch import onednn
from minrisk._torch.int8 import Int8Linear, int8_not_supported_reasons
from minrisk.samplers.hf import Transformers
from tolerance import assert_close

CPU = torch.device("cpu")
WITHOUT_ONEDNN = onednn.not_supported_reasons(CPU, torch.float32)
WITHOUT_INT8 = int8_not_supported_reasons(CPU)
NEEDS_ONEDNN = pytest.mark.skipif(bool(WITHOUT_ONEDNN), reason=", ".join(WITHOUT_ONEDNN) or "-")
NEEDS_INT8 = pytest.mark.skipif(bool(WITHOUT_INT8), reason=", ".join(WITHOUT_INT8) or "-")
SOURCES = ["the cat sat on a mat", "the dog", "it ran to a red mat"]
FAST = [kind for kind in [*tiny_models.SEQ2SEQ, "llama", "gemma2"] if kind != "t5"]

pytestmark = [pytest.mark.usefixtures("one_thread"),
              pytest.mark.filterwarnings("ignore:.*samples so far were cut")]  # limits are low here


def sampler(folder, **options) -> Transformers:
    return Transformers(str(folder), device="cpu", max_tokens=6, epsilon=0.02, **options)


def layers(found: Transformers) -> set[type]:
    return {type(part) for part in found._model.loaded[0].modules()}


@NEEDS_ONEDNN
@pytest.mark.parametrize("kind", FAST)
def test_layers_of_onednn_draw_what_those_of_torch_draw(kind, tmp_path, monkeypatch):
    tiny_models.save(tmp_path, kind)
    ours = sampler(tmp_path)
    found = ours.sample(SOURCES, 30)
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    plain = sampler(tmp_path)
    wanted = plain.sample(SOURCES, 30)
    assert onednn.OneDnnLinear in layers(ours) - layers(plain)
    assert torch.nn.Linear in layers(plain) - layers(ours)
    for some, others in zip(found, wanted, strict=True):
        assert [(own.tokens, own.count) for own in some] == [
            (own.tokens, own.count) for own in others]
        assert_close(*([own.logprob for own in part] for part in (some, others)), "fp32")


@NEEDS_INT8
@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_int8_is_near_fp32(kind, tmp_path):
    tiny_models.save(tmp_path, kind)
    exact, rounded = (sampler(tmp_path, dtype=dtype) for dtype in ("fp32", "int8"))
    pairs = []
    for some, others in zip(exact.sample(SOURCES, 200), rounded.sample(SOURCES, 200), strict=True):
        known = {own.tokens: own for own in others}
        pairs += [(own.logprob, known[own.tokens].logprob) for own in some if own.tokens in known]
    ours, theirs = np.array(pairs).T
    assert Int8Linear in layers(rounded)
    assert torch.nn.Linear not in layers(rounded)
    assert 0 < np.sqrt(np.mean((ours - theirs) ** 2)) < 0.3


@NEEDS_INT8
def test_int8_is_refused_for_models_whose_layers_are_unknown(tmp_path):
    tiny_models.save(tmp_path, "t5")
    with pytest.raises(InputError, match="t5"):
        sampler(tmp_path, dtype="int8").prepare()


def test_int8_is_refused_where_it_cannot_run(tmp_path, monkeypatch):
    tiny_models.save(tmp_path, "marian")
    monkeypatch.setattr(torch.ops, "onednn", SimpleNamespace())
    with pytest.raises(InputError, match="int8"):
        sampler(tmp_path, dtype="int8").prepare()
