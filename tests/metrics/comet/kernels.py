"""Compares COMET's kernels, and what is made of them, with plain torch.

usage: python kernels.py cpu|cuda        (on the CPU with TRITON_INTERPRET=1)
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from comet_models import CHECKPOINTS, DATA, GOLDEN, cast
from minrisk._torch.kernels import add_norm
from minrisk.metrics.comet import Comet, checkpoint, fused, kernels, packed
from minrisk.metrics.comet.estimator import Estimator, feed_forward
from minrisk.metrics.comet.pair_blocks import PairProgress
from tolerance import assert_close, assert_no_worse

DEVICE = sys.argv[1]
PRODUCTS = "fp32" if DEVICE == "cpu" else "tf32"  # the precision of products of matrices
HALVES = (torch.float16, torch.bfloat16)
HIDDEN = ((40,), (40, 12), (40, 12, 8))
IDS = [[0, 7, 9, 2], [0, 2], [0, *range(5, 13), 2]]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def estimator(hidden: tuple[int, ...], width: int) -> Estimator:
    network = feed_forward(6 * width, hidden, "Tanh", None).to(DEVICE, torch.float64)
    return Estimator.of(network, fast=False)


def check_pairs(hidden: tuple[int, ...], dtype: torch.dtype, width: int = 24) -> None:
    exact = estimator(hidden, width)
    src, left, right = (random(count, width, dtype=dtype) for count in (1, 5, 9))
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(9))[torch.randperm(45)].T
    pairs = pairs.contiguous().to(DEVICE)
    exact_sides = [exact.both(own.double(), src.double()) for own in (left, right)]
    plain = cast(exact, dtype)
    quick = replace(plain, fast=True)
    sides = [plain.both(own, src) for own in (left, right)]
    check_scores(quick.pair_scores(*sides), plain.pair_scores(*sides),
                 exact.pair_scores(*exact_sides))
    check_scores(quick.listed_scores(*sides, pairs), plain.listed_scores(*sides, pairs),
                 exact.listed_scores(*exact_sides, pairs))


def check_scores(found: torch.Tensor, plain: torch.Tensor, wanted: torch.Tensor) -> None:
    assert found.shape == wanted.shape
    if plain.dtype in HALVES:
        assert_no_worse(found, plain, wanted)
    else:
        assert_close(found, wanted, "fp32", scale=1)  # as its hidden units have


def check_symmetric_pairs(count: int, pairs: int, width: int = 24) -> None:
    """Among the same texts: the utilities of all pairs, of which each is formed once."""
    plain = cast(estimator((40, 12), width), torch.float32)
    quick = replace(plain, fast=True)
    src, texts = random(1, width), random(count, width)
    mass = torch.rand(count, dtype=torch.float64, device=DEVICE)
    both, formed = plain.both(texts, src), []

    def counted(left: torch.Tensor, right: torch.Tensor, listed: torch.Tensor) -> torch.Tensor:
        formed.append(listed.shape[1])
        return pair_features(left, right, listed)

    pair_features, kernels.pair_features = kernels.pair_features, counted
    progress = PairProgress(count**2, on_cpu=False)
    found = quick.symmetric_utility(both, mass, pairs, progress)
    kernels.pair_features = pair_features
    assert_close(found, plain.pair_scores(both, both).double() @ mass, "fp32", scale=count)
    assert max(formed) <= pairs
    assert sum(formed) == count * (count + 1) // 2


def check_add_norm(dtype: torch.dtype) -> None:
    norm = torch.nn.LayerNorm(24, device=DEVICE)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    change, stream = random(7, 24, dtype=dtype), random(7, 24, dtype=dtype)
    wanted = norm.double()(change.double() + stream.double())
    norm = norm.to(dtype)
    found = add_norm(change, stream, norm)
    if dtype in HALVES:
        assert_no_worse(found, norm(change + stream), wanted)
    else:
        assert_close(found, wanted, "fp32")


def check_token_sums() -> None:
    hidden = random(12, 300)
    starts = torch.tensor([0, 3, 4, 12], dtype=torch.int32, device=DEVICE)
    wanted = torch.stack([part.sum(0) for part in hidden.split([3, 1, 8])])
    assert_close(kernels.token_sums(hidden, starts), wanted, "fp32")


def check_attention(dtype: torch.dtype, heads: int = 3, width: int = 20) -> None:
    """Texts shorter than a block, of one token, and of several blocks."""
    lengths = [5, 1, 64, 130]
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32, device=DEVICE)
    joint = random(sum(lengths), 3 * heads * width, dtype=dtype)

    def plain(numbers: torch.Tensor) -> torch.Tensor:
        parts = []
        for own in numbers.split(lengths):
            q, k, v = own.view(len(own), 3, heads, width).permute(1, 2, 0, 3)
            mixed = functional.scaled_dot_product_attention(q, k, v)  # (heads, n, width)
            parts.append(mixed.transpose(0, 1).flatten(1))
        return torch.cat(parts)

    found = kernels.attention(joint, starts, max(lengths), heads)
    if dtype in HALVES:
        assert_no_worse(found, plain(joint), plain(joint.double()))
    else:
        assert_close(found, plain(joint.double()), PRODUCTS)


def pretrained(folder: Path) -> str:
    return checkpoint.load(str(folder)).architecture.pretrained_model


def check_encoder(variant: str, dtype: str) -> None:
    """A whole encoder, packed and padded, against one in single precision."""
    options = {"model": str(CHECKPOINTS / variant), "device": DEVICE, "fast": False,
               "encoder": str(DATA / GOLDEN["hub"][pretrained(CHECKPOINTS / variant)])}
    encoder = Comet(**options, dtype=dtype)._embedder.encoder
    ids = [encoder.cut(np.array(own)) for own in IDS]
    reasons = [r for r in packed.not_supported_reasons(encoder) if "device" not in r]
    assert reasons == ([] if dtype != "fp32" else reasons)
    with torch.inference_mode():
        quick = packed.PackedEncoder(encoder)
        found = quick.embed(ids)
        padded = encoder.encode(ids, 10**6)
        exact = Comet(**options, dtype="fp32")._embedder.encoder.encode(ids, 10**6)
        again = [quick.embed(ids[::-1]).flip(0), filled_up(quick, ids)]
        if DEVICE == "cuda":  # where it is a recording
            again.append(quick.embed(ids))
    for embeddings in (found, *again):
        if dtype == "fp32":
            assert_close(embeddings, exact, PRODUCTS)
        else:
            assert_no_worse(embeddings, padded, exact)


def filled_up(encoder: packed.PackedEncoder, ids: list[np.ndarray]) -> torch.Tensor:
    """As a recording computes them: with tokens and texts that do not count."""
    size = packed.BatchSize.of(ids).rounded_up()
    assert size.texts > len(ids)
    numbers = torch.from_numpy(packed.packed_numbers(ids, size)).to(DEVICE)
    return encoder._run(numbers, size)[: len(ids)]


def check_reasons() -> None:
    relu = replace(estimator((8,), 4), activation=torch.nn.ReLU())
    reasons = fused.not_supported_reasons(relu)
    assert any("ReLU" in reason for reason in reasons)
    assert any("cpu" in reason for reason in reasons) == (DEVICE == "cpu")


def main() -> None:
    torch.manual_seed(0)
    packed._MIN_TOKEN_STEP = 8  # the interpreter is slow
    for dtype in (torch.float32, *HALVES):
        # the interpreter is slow: it has every depth in one precision, every precision at one depth
        for hidden in HIDDEN if DEVICE == "cuda" or dtype == torch.float32 else HIDDEN[1:2]:
            check_pairs(hidden, dtype)
        check_add_norm(dtype)
    for count, pairs in ((1, 1), (3, 2), (7, 100), (12, 40)):
        check_symmetric_pairs(count, pairs)
    check_token_sums()
    check_reasons()
    # Triton's interpreter does not multiply matrices of bfloat16
    names = {"fp32": torch.float32, "fp16": torch.float16}
    for name, dtype in (names | ({"bf16": torch.bfloat16} if DEVICE == "cuda" else {})).items():
        check_attention(dtype)
        # one model in each precision on the CPU, of which kernels are used by default in fp16
        if DEVICE == "cuda" or name == "fp32":
            check_encoder("xlmr_mix_softmax_layernorm", name)
        if DEVICE == "cuda" or name == "fp16":
            check_encoder("pool_cls", name)
    del torch._addmm_activation  # a private function that other versions may lack
    check_encoder("pool_cls", "fp16")


if __name__ == "__main__":
    main()
