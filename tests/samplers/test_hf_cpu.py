"""Sampling on a CPU: layers of oneDNN and kernels of the native core, beside plain torch."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")

import tiny_models
from minrisk import _native as core
from minrisk._core.errors import InputError
from minrisk._torch import int8, onednn
from minrisk._torch.int8 import Int8Linear, int8_not_supported_reasons
from minrisk.samplers.hf import Transformers, native
from minrisk.samplers.hf.attention import KVCache, NativeAttention, TorchAttention
from minrisk.samplers.hf.truncation import Truncation
from tolerance import assert_close

CPU = torch.device("cpu")
WITHOUT_ONEDNN = onednn.not_supported_reasons(CPU, torch.float32)
WITHOUT_INT8 = int8_not_supported_reasons(CPU)
WITHOUT_CORE = native.not_supported_reasons(CPU)
NEEDS_ONEDNN = pytest.mark.skipif(bool(WITHOUT_ONEDNN), reason=", ".join(WITHOUT_ONEDNN) or "-")
NEEDS_INT8 = pytest.mark.skipif(bool(WITHOUT_INT8), reason=", ".join(WITHOUT_INT8) or "-")
NEEDS_CORE = pytest.mark.skipif(bool(WITHOUT_CORE), reason=", ".join(WITHOUT_CORE) or "-")
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


@pytest.fixture(params=[pytest.param(name, marks=NEEDS_CORE) for name in core.available_simd()])
def simd(request):
    """Runs a test with each instruction set."""
    before = core.simd()
    core.set_simd(request.param)
    yield request.param
    core.set_simd(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocabulary", [7, 256, 1000])
def test_likely_tokens_are_those_of_a_sorted_log_softmax(simd, dtype, vocabulary):
    torch.manual_seed(vocabulary)
    logits = (3 * torch.randn(9, vocabulary)).to(dtype)
    logits[:, :5] = -torch.inf  # banned
    logits[3] = -torch.inf
    logits[3, 6] = 2.0
    tokens, scores, totals, finite = native.likely(logits, np.log(0.02), 52)
    logs = logits.float().log_softmax(1)
    assert_close(totals, logits.float().logsumexp(1), "fp32")
    sums = logits.double().nan_to_num(neginf=0).sum(1)
    assert_close(finite[:, 0], sums, "fp32", scale=vocabulary)
    assert torch.equal(finite[:, 1], (logits > -torch.inf).sum(1).float())
    for row in range(9):
        wanted = {int(i): float(logs[row, i])
                  for i in (logs[row] >= np.log(0.02)).nonzero()[:, 0]}
        found = {int(token): float(score)
                 for token, score in zip(tokens[row], scores[row], strict=True) if score > -np.inf}
        assert found.keys() == (wanted or {int(logs[row].argmax()): 0}).keys()
        assert_close([found[i] for i in wanted], [*wanted.values()], "fp32", scale=10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_numbers_have_no_likely_tokens(simd, value):
    logits = torch.zeros(2, 300)
    logits[1, 270] = value
    _, scores, totals, _ = native.likely(logits, np.log(0.02), 52)
    assert totals.isfinite().tolist() == [True, False]
    assert not (scores[1] > -np.inf).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [8, 64, 72])
def test_attention_reads_the_prefix_tree_as_torch_does(simd, dtype, size):
    torch.manual_seed(size)
    rows, heads, slots, length, sources = 5, 3, 40, 7, 2
    lengths, source = torch.tensor([4, 6]), torch.tensor([0, 0, 0, 1, 1])
    self_kv, cross_kv = (torch.randn(*shape).to(dtype)
                         for shape in ((1, 2, slots, heads, size), (1, 2, sources, heads, 6, size)))
    paths = torch.randint(0, 30, (rows, length), dtype=torch.int32)
    paths[:, -1] = torch.arange(30, 30 + rows)
    new = torch.randn(3, rows, heads, size).to(dtype)
    found, caches = [], []
    for kind in (NativeAttention, TorchAttention):
        cache = KVCache(self_kv.clone(), paths, cross_kv, lengths)
        attention = kind(cache, length, source)
        found.append(torch.stack([attention.self_attention(0, *new),
                                  attention.cross_attention(0, new[0])]))
        caches.append(cache.self_kv)
    assert torch.equal(*caches)
    assert_close(*found, "fp32" if dtype == torch.float32 else "bf16")


@NEEDS_CORE
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_instruction_sets_sample_from_the_same_bits(dtype):
    torch.manual_seed(0)
    logits = torch.randn(4, 1000).to(dtype)
    cache, paths = torch.randn(2, 9, 2, 40).to(dtype), torch.arange(8, dtype=torch.int32).view(2, 4)
    new = torch.randn(3, 2, 2, 40).to(dtype)
    before, runs = core.simd(), []
    for name in core.available_simd():
        core.set_simd(name)
        runs.append([*native.likely(logits, np.log(0.001), 1000),
                     native.self_attention(*new, cache.clone(), paths)])
    core.set_simd(before)
    for run in runs:
        for one, first in zip(run, runs[0], strict=True):
            assert torch.equal(one, first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("vocabulary", "width"), [(7, 7), (1000, 3), (1000, 40), (4000, 9)])
def test_the_best_tokens_are_those_of_a_sorted_log_softmax(simd, dtype, vocabulary, width):
    torch.manual_seed(vocabulary)
    logits = (3 * torch.randn(5, vocabulary)).to(dtype)
    logits[1] = 1.0  # all are equal
    logits[2, :-3] = -torch.inf
    logits[3, : vocabulary // 2] += 20  # those of a part, so that few blocks have them all
    tokens, scores, totals, _ = native.best(logits, width)
    logs = logits.float().log_softmax(1)
    assert_close(totals, logits.float().logsumexp(1), "fp32")
    wanted = logs.topk(width).values
    assert torch.equal(wanted == -torch.inf, scores == -torch.inf)
    assert_close(scores.clamp(min=-1e3), wanted.clamp(min=-1e3), "fp32", scale=10)
    assert_close(logs.gather(1, tokens)[scores > -torch.inf], scores[scores > -torch.inf], "fp32",
                 scale=10)
    assert all(len(set(own.tolist())) == width for own in tokens[[0, 1, 3, 4]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_numbers_have_no_best_tokens(simd, value):
    logits = torch.randn(2, 4000)
    logits[1, 270:2000] = value
    _, scores, totals, _ = native.best(logits, 20)
    assert totals.isfinite().tolist() == [True, False]
    assert not (scores[1] > -np.inf).any()


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 5, 7), (13, 64, 32), (30, 30, 70)])
def test_int8_has_the_same_bits_with_and_without_the_native_core(simd, rows, inputs, outputs,
                                                                 monkeypatch):
    torch.manual_seed(inputs)
    layer, sizes = torch.nn.Linear(inputs, outputs), torch.tensor([1.0, 1e-3, 0.0, 50.0])
    texts = torch.randn(rows, inputs) * sizes.repeat(rows)[:rows, None]
    with torch.inference_mode():
        ours = Int8Linear(layer)
        found = ours(texts)
        assert_close(found, layer(texts), "bf16", scale=10)
        assert_close(ours.rows(torch.arange(outputs)), layer.weight, "bf16", scale=10)
        monkeypatch.setattr(int8, "native_core", lambda: None)
        assert torch.equal(found, ours(texts))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_activations_that_are_no_numbers_are_seen(simd, value):
    rows = torch.ones(2, 40)
    rows[1, 39] = value
    with torch.inference_mode():
        found = Int8Linear(torch.nn.Linear(40, 6))(rows)
    assert found.isfinite().all(1).tolist() == [True, False]


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_k": 3, "temperature": 0.7},
                                     {"top_p": 0.8}, {"min_p": 0.1}], ids=str)
def test_truncations_draw_what_a_sorted_vocabulary_draws(options, tmp_path, monkeypatch):
    tiny_models.save(tmp_path, "marian")
    draw = partial(Transformers, str(tmp_path), device="cpu", max_tokens=6, **options)
    found = draw().sample(SOURCES, 100)
    monkeypatch.setattr(Truncation, "uses_likely_kernel", lambda *_: False)
    for some, others in zip(found, draw().sample(SOURCES, 100), strict=True):
        assert [(own.tokens, own.count) for own in some] == [
            (own.tokens, own.count) for own in others]
        assert_close(*([[own.logprob, own.truncated_logprob] for own in part]
                       for part in (some, others)), "fp32")


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_native_core_draws_what_torch_draws(dtype, tmp_path, monkeypatch):
    tiny_models.save(tmp_path, "marian")
    found = sampler(tmp_path, dtype=dtype).sample(SOURCES, 200)
    monkeypatch.setattr(native, "native_core", lambda: None)
    wanted = sampler(tmp_path, dtype=dtype).sample(SOURCES, 200)
    for some, others in zip(found, wanted, strict=True):
        theirs = {own.tokens: own for own in others}
        common = [own for own in some if own.tokens in theirs]
        assert sum(own.count for own in common) > 150
        assert_close(*([[own.logprob, own.truncated_logprob] for own in part]
                       for part in (common, [theirs[own.tokens] for own in common])), dtype)


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


def test_int8_is_refused_without_the_native_core(tmp_path, monkeypatch):
    tiny_models.save(tmp_path, "marian")
    monkeypatch.setattr(int8, "native_core", lambda: None)
    with pytest.raises(InputError, match="int8"):
        sampler(tmp_path, dtype="int8").prepare()
