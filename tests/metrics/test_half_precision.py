"""Where fp16 is the default, numbers beyond its range are computed in bf16; and int8 on CPUs."""

from __future__ import annotations

import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")
pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")

import minrisk
from comet_models import CHECKPOINTS, enter_hub
from minrisk._torch import device, int8
from minrisk._torch.int8 import Int8Linear, int8_not_supported_reasons
from minrisk.metrics.comet import Comet, CometKiwi, CometQE, XComet
from tolerance import assert_close

TEXTS = ["The old bridge.", "A new bridge?", "My glasses.", "Where?"]
# weights that make numbers too large: inside a layer, or in its output, of which the estimator
# forms products
INSIDE = "encoder.layer.0.intermediate.dense.weight"
OUTPUT = ("encoder.layer.1.output.LayerNorm.weight", "encoder.layer.1.output.LayerNorm.bias")


WITHOUT_INT8 = int8_not_supported_reasons(torch.device("cpu"))
NEEDS_INT8 = pytest.mark.skipif(bool(WITHOUT_INT8), reason=", ".join(WITHOUT_INT8) or "-")


@pytest.fixture(autouse=True)
def half_precision_as_on_cuda(tmp_path, monkeypatch):
    enter_hub(tmp_path, monkeypatch)
    choose = device.choose_dtype
    monkeypatch.setattr(device, "choose_dtype",
                        lambda name, _, on_cuda: choose(name, torch.device("cuda"), on_cuda))


def scaled(variant: str, factor: float, *names: str) -> str:
    """A copy of a checkpoint, in which the weights whose names end so are larger."""
    folder = Path("scaled").absolute()
    shutil.copytree(CHECKPOINTS / variant, folder)
    path = folder / "checkpoints" / "model.ckpt"
    found = torch.load(path, weights_only=True)
    chosen = [name for name in found["state_dict"] if name.endswith(names)]
    assert len(chosen) >= len(names)
    for name in chosen:
        found["state_dict"][name] *= factor
    torch.save(found, path)
    return str(folder)


def scores(metric) -> np.ndarray:
    features = metric.features(TEXTS)
    return metric.scores(features, features, features[np.array([0])])


def scores_and_warnings(metric) -> tuple[np.ndarray, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = scores(metric)
        again = scores(metric)  # a second time, without a warning
    np.testing.assert_array_equal(again, found)
    return found, [str(own.message) for own in caught]


def of_kind(kind, model: str, dtype: str = "auto", **options):
    return kind(model=model, dtype=dtype, device="cpu", **options)


@pytest.mark.parametrize(("kind", "variant"), [(Comet, "xlmr_mix_sparsemax"), (Comet, "pool_cls"),
                                               (CometQE, "referenceless"), (CometKiwi, "kiwi"),
                                               (XComet, "xcomet")])
def test_an_encoder_that_overflows_fp16_runs_in_bf16_and_says_so_once(kind, variant):
    model = scaled(variant, 1e7, INSIDE)
    found, messages = scores_and_warnings(of_kind(kind, model))
    assert len(messages) == 1
    assert "too large for fp16" in messages[0]
    np.testing.assert_array_equal(found, scores(of_kind(kind, model, "bf16")))


def test_embeddings_whose_products_overflow_fp16_are_computed_in_bf16():
    model = scaled("pool_cls", 300, *OUTPUT)
    found, messages = scores_and_warnings(of_kind(Comet, model))
    assert len(messages) == 1
    np.testing.assert_array_equal(found, scores(of_kind(Comet, model, "bf16")))


def test_an_estimator_that_overflows_fp16_scores_the_same_embeddings_in_bf16():
    model = scaled("pool_cls", 1e7, "estimator.ff.0.weight")
    metric, other = of_kind(Comet, model), of_kind(Comet, model, "bf16")
    features = metric.features(TEXTS)
    assert features.base.dtype == torch.float16
    with pytest.warns(UserWarning, match="fp16"):
        found = metric.scores(features, features, features[np.array([0])])
    theirs = replace(features, owner=other)
    np.testing.assert_array_equal(found, other.scores(theirs, theirs, theirs[np.array([0])]))
    assert metric.features(TEXTS).base.dtype == torch.bfloat16


def test_numbers_in_range_stay_in_fp16():
    model = str(CHECKPOINTS / "xlmr_mix_sparsemax")
    found, messages = scores_and_warnings(of_kind(Comet, model))
    assert messages == []
    np.testing.assert_array_equal(found, scores(of_kind(Comet, model, "fp16")))


def test_fp16_by_name_is_not_replaced():
    metric = of_kind(Comet, scaled("pool_cls", 1e7, INSIDE), "fp16")
    assert np.isnan(scores(metric)).any()
    assert metric.features(TEXTS).base.dtype == torch.float16


def test_cached_embeddings_of_a_model_that_overflows_are_read_again(tmp_path):
    model, cache = scaled("pool_cls", 1e7, INSIDE), str(tmp_path / "cache")
    with pytest.warns(UserWarning, match="fp16"):
        written = of_kind(Comet, model, cache=cache).features(TEXTS).base
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is encoded, so that nothing overflows
        read = of_kind(Comet, model, cache=cache).features(TEXTS).base
    assert_close(read, written, "bf16")
    other = of_kind(Comet, model, "fp16", cache=cache).features(TEXTS).base
    assert other.isnan().any()


@NEEDS_INT8
@pytest.mark.parametrize(("kind", "variant"), [(Comet, "xlmr_mix_sparsemax"), (Comet, "rembert"),
                                               (CometKiwi, "kiwi")])
def test_int8_is_near(kind, variant):
    """Its numbers have as many digits as those of bf16, and one scale for a token."""
    model = str(CHECKPOINTS / variant)
    found, exact = (scores(of_kind(kind, model, dtype)) for dtype in ("int8", "fp32"))
    assert_close(found, exact, "bf16")
    assert np.any(found != exact)


@NEEDS_INT8
def test_int8_leaves_no_linear_layer_of_the_encoder():
    metric = of_kind(Comet, str(CHECKPOINTS / "xlmr_mix_sparsemax"), "int8")
    modules = metric._embedder.encoder.model.modules()
    assert not any(isinstance(module, torch.nn.Linear) for module in modules)


@NEEDS_INT8
def test_in_int8_a_text_does_not_depend_on_its_batch():
    layer = Int8Linear(torch.nn.Linear(24, 5))
    texts = torch.randn(3, 4, 24) * torch.tensor([1.0, 100.0, 0.0])[:, None, None]
    with torch.inference_mode():
        together, alone = layer(texts), torch.stack([layer(text) for text in texts])
    assert_close(together, alone, "fp32")


def test_int8_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.setattr(device, "choose_device", torch.device)
    with pytest.raises(minrisk.InputError, match="cuda"):
        device.Runtime("cuda", "int8")
    monkeypatch.setattr(int8, "native_core", lambda: None)
    with pytest.raises(minrisk.InputError, match="native core"):
        device.Runtime("cpu", "int8")


def test_threads_compute_one_after_the_other_and_the_callers_precision_returns():
    before = torch.get_float32_matmul_precision()
    exact, fast = device.Runtime("cpu", "fp32"), device.Runtime("cpu", "tf32")
    seen = []

    def enter(runtime: device.Runtime) -> None:
        with runtime.precision():
            seen.append(torch.get_float32_matmul_precision())

    with ThreadPoolExecutor(1) as threads:
        with exact.precision(), exact.precision():
            waiting = threads.submit(enter, fast)
            assert torch.get_float32_matmul_precision() == "highest"
            assert seen == []
        waiting.result()
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == before
