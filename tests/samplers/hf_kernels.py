"""Compares the sampler's kernels, and what is drawn with them, with plain torch.

usage: python kernels.py cpu|cuda        (on the CPU with TRITON_INTERPRET=1)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import tiny_models
from minrisk._core.errors import InputError
from minrisk._torch import cuda_graphs
from minrisk._torch.device import triton_not_supported_reasons
from minrisk.samplers.hf import (
    bart,
    causal_kernels,
    fast_decoder,
    kernels,
    prefix_cache,
    truncation,
)
from minrisk.samplers.hf import engine as sampler
from minrisk.samplers.hf.attention import KVCache, TorchAttention, TritonAttention
from minrisk.samplers.hf.engine import SampledSequence, SamplingEngine
from minrisk.samplers.hf.prefixes import TokenizedPrompt
from minrisk.samplers.hf.truncation import Truncation
from tolerance import assert_close

DEVICE = sys.argv[1]
# tokens of a sample, and how many samples: the interpreter is slow
LIMIT, SAMPLES = (12, 30) if DEVICE == "cuda" else (5, 3)
EPSILON = Truncation(epsilon=0.02)
HALF = "bf16" if DEVICE == "cuda" else "fp16"
SOURCES = [(6, 7, 8, 2), (6, 12, 2), (15, 13, 14, 9, 10, 2)]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def indices(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, device=DEVICE)


def caches(heads: int, size: int, dtype: torch.dtype, cross_kv: torch.Tensor,
           lengths: torch.Tensor) -> list[KVCache]:
    """Two equal ones, of five rows that share some of their tokens."""
    paths = torch.randint(0, 70, (5, 36), device=DEVICE, dtype=torch.int32)
    self_kv = random(1, 2, 300, heads, size, dtype=dtype)
    self_kv[:, :, 70:] = math.nan  # what no row refers to is not read
    return [KVCache(self_kv.clone(), paths.clone(), cross_kv, lengths) for _ in range(2)]


def ways(own: list[KVCache], position: int, source: torch.Tensor) -> tuple:
    """With torch and with Triton, whose new tokens have slots of their own: a slot that one row
    writes while another reads it is a race on a GPU.
    """
    for cache in own:
        cache.paths[:, position] = torch.arange(100 + 5 * position, 105 + 5 * position)
    addresses = torch.from_numpy(own[1].addresses(position)).to(DEVICE)
    return (TorchAttention(own[0], position + 1, source), TritonAttention(addresses, source))


def check_attention(heads: int, size: int, name: str) -> None:
    """Rows of three sources, up to and past a block of tokens; what follows them is not read."""
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    cross_kv = random(1, 2, 3, heads, 33, size, dtype=dtype)
    own, source = caches(heads, size, dtype, cross_kv, indices(33, 1, 17)), indices(0, 0, 1, 2, 2)
    for position in (0, 15, 16, 34):
        query, key, value = (random(5, heads, size, dtype=dtype) for _ in range(3))
        for found in zip(*([way.self_attention(0, query, key, value), way.cross_attention(0, query)]
                           for way in ways(own, position, source)), strict=True):
            assert_close(*found, name)
    torch.testing.assert_close(own[0].self_kv, own[1].self_kv, equal_nan=True)


def check_shared_prompts(heads: int, kv_heads: int, size: int, name: str,
                         softcap: float | None = None, splits: int = 16) -> None:
    """Rows of three prompts that are longer and shorter than a block; one of them has no row.

    The interpreter has fewer programs than a GPU: with two, one reads several blocks of a prompt;
    with more than there are blocks, some read none.
    """
    if DEVICE == "cpu":
        causal_kernels._MAX_SPLITS = splits
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    prompt_kv = random(1, 2, 4, kv_heads, 150, size, dtype=dtype)
    prompt_kv[:, :, 0, :, 147:] = 100  # what follows a prompt is not read
    own = caches(kv_heads, size, dtype, prompt_kv, indices(147, 1, 64, 66))
    for position in (0, 31, 32):
        query = random(5, heads, size, dtype=dtype)
        key, value = (random(5, kv_heads, size, dtype=dtype) for _ in range(2))
        plain, fast_way = (way.shared_prompt_attention(0, query, key, value, 0.3, softcap)
                           for way in ways(own, position, indices(0, 0, 1, 3, 3)))
        assert_close(fast_way, plain, name)
    torch.testing.assert_close(own[0].self_kv, own[1].self_kv, equal_nan=True)


def check_likely(dtype: torch.dtype, vocabulary: int) -> None:
    """Also a row whose best token is below the bar, and one in which a token is impossible."""
    logits = 4 * random(4, vocabulary, dtype=dtype)
    logits[1] = 0
    logits[1, 5] = 0.5
    logits[2, 3] = -math.inf
    tokens, scores, totals, finite = kernels.likely(logits, math.log(0.02), 52)
    assert_close(totals, logits.float().logsumexp(1), "fp32")
    sums = logits.double().nan_to_num(neginf=0).sum(1)
    assert_close(finite[:, 0], sums, "fp32", scale=vocabulary)
    assert torch.equal(finite[:, 1], (logits > -math.inf).sum(1).float())
    for row, logs in enumerate(logits.float().log_softmax(1)):
        bar = min(math.log(0.02), logs.max().item())
        wanted = {token: p for token, p in enumerate(logs.tolist()) if p >= bar}
        inside = scores[row] > -math.inf
        found = dict(zip(tokens[row][inside].tolist(), scores[row][inside].tolist(), strict=True))
        assert found.keys() == wanted.keys(), (found, wanted)
        assert_close([found[token] for token in wanted], list(wanted.values()), "fp32",
                     scale=float(logits[row][logits[row].isfinite()].abs().max()))


class Rerun:
    """Stands in for a CUDA graph: runs what was recorded once more, into the same memory, and
    overwrites what the other graphs returned.
    """

    made: ClassVar[list[Rerun]] = []

    def __init__(self, run, drawn):
        self.run, self.drawn = run, drawn
        self.made.append(self)

    def replay(self):
        again = self.run()
        for other in self.made:
            other.drawn.state.packed.fill_(-7)
            other.drawn.parents.fill_(-7)
            other.drawn.columns.fill_(math.nan)
        self.drawn.state.packed.copy_(again.state.packed)
        self.drawn.parents.copy_(again.parents)
        self.drawn.columns.copy_(again.columns)


def record(function, inputs, pool):
    drawn = function(inputs)
    return cuda_graphs.Recording(Rerun(lambda: function(inputs), drawn), inputs, drawn)


def engine(model, truncation: Truncation, limit: int) -> SamplingEngine:
    return SamplingEngine(model, model.generation_config, truncation, limit)


def counts(drawn: list[list[SampledSequence]]) -> list[list[tuple]]:
    return [[(d.tokens, d.count, d.first) for d in own] for own in drawn]


def check_drawing(kind: str, largest: int, options: Truncation = EPSILON,
                  limit: int = LIMIT) -> None:
    """Steps that are launched, recorded and replayed, with other sources, rows and lengths."""
    model = tiny_models.model(kind)
    start = (model.generation_config.decoder_start_token_id,)
    given = ([TokenizedPrompt((), source[:3]) for source in SOURCES] if kind in tiny_models.CAUSAL
             else [TokenizedPrompt(source, start) for source in SOURCES])
    plain = engine(model, options, limit).sample(given, SAMPLES, 3, range(3))
    fast_decoder._MAX_RECORDED_ROWS = largest
    with kernels_used():
        check_made(engine(model.to(DEVICE), options, limit), given, plain)


@contextmanager
def kernels_used() -> Iterator[None]:
    """As on CUDA, wherever it is."""
    for module in (bart, fast_decoder, truncation):
        module.triton_not_supported_reasons = lambda device: []
    sampler._per_thread.decoders.clear()
    try:
        yield
    finally:
        for module in (bart, fast_decoder, truncation):
            module.triton_not_supported_reasons = triton_not_supported_reasons


def check_made(made: SamplingEngine, given: list[TokenizedPrompt],
               plain: list[list[SampledSequence]]) -> None:
    for batch in (given[:2], given[1:2], given[1:2], given[:2]):
        first = given.index(batch[0])
        places = range(first, first + len(batch))
        drawn = made.sample(batch, SAMPLES, 3, places)
        assert counts(drawn) == counts([plain[place] for place in places])
        for own, place in zip(drawn, places, strict=True):
            assert_close([d.logprob for d in own], [d.logprob for d in plain[place]], "fp32",
                         ulps=1024)  # a sum over tokens, each after a whole decoder
    recorded = made._decoder(made.limit + 3)._graphs._graphs._recorded
    before = len(recorded)
    made.sample(given[1:2], SAMPLES, 3, [1])
    assert 0 < before == len(recorded) < 20, before


def check_invalid_logits(options: Truncation) -> None:
    """They are the error that they are, though a step was launched before the host knew."""
    model = tiny_models.model("marian").to(DEVICE)
    torch.nn.init.constant_(model.get_decoder().layers[-1].fc2.bias, math.nan)
    start = (model.generation_config.decoder_start_token_id,)
    made = engine(model, options, LIMIT)
    with kernels_used():
        for _ in range(3):
            said = ""
            try:
                made.sample([TokenizedPrompt(SOURCES[0], start)], SAMPLES, 3, [4])
            except InputError as error:
                said = str(error)
            assert said.startswith("source 5: the model's logits are not numbers")


def padded_projection(weight: torch.Tensor, bias: torch.Tensor | None) -> tuple:
    """As on CUDA."""
    more, given = -len(weight) % 64, weight.new_zeros(len(weight)) if bias is None else bias[0]
    return (torch.nn.functional.pad(weight, (0, 0, 0, more)),
            torch.nn.functional.pad(given, (0, more), value=-math.inf))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    check_attention(2, 8, "fp32")
    # the interpreter multiplies no matrices in bf16
    check_attention(1, 24, HALF)
    check_shared_prompts(4, 2, 8, "fp32", softcap=2.0, splits=4)
    check_shared_prompts(14, 2, 24, HALF, splits=2)
    check_likely(torch.float32, 200)
    check_likely(torch.bfloat16, 5000)
    check_likely(torch.bfloat16, 17000)
    fast_decoder._FIRST_SHARE, fast_decoder._FIRST_STEPS = 0, 2
    prefix_cache._MIN_SLOTS = 4
    if DEVICE == "cpu":
        torch.cuda.graph_pool_handle = lambda: None
        fast_decoder.padded_rows = lambda number: -(-number // 4) * 4
        cuda_graphs.record = record
        bart._padded_projection = padded_projection
    check_drawing("marian", SAMPLES)
    for options in (Truncation(), Truncation(epsilon=0.02, temperature=0.9)):
        check_invalid_logits(options)
    truncation._FIRST_LIST_TOKENS = 2  # too few for some
    check_drawing("llama", SAMPLES, Truncation(top_p=0.9))
    truncation._FIRST_LIST_TOKENS = 3  # too few at some steps, and enough before and after
    check_drawing("llama", SAMPLES, Truncation(top_p=0.3))
    if DEVICE == "cuda":
        check_drawing("llama", SAMPLES)
        check_drawing("m2m", 2048)
        check_drawing("fsmt", SAMPLES)
        check_drawing("qwen", 2048)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
