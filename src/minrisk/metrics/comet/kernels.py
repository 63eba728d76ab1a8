"""Fused Triton kernels for the operations between matrix products; each reads its input once.

They run on CUDA, and in tests on the CPU with Triton's interpreter. They accumulate in float32 for
any type in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def pair_features(left: Tensor, right: Tensor, pairs: Tensor) -> Tensor:
    """(P, 2D) left * right and |left - right| for pairs (2, P) of rows of `left` and `right`."""
    count, width = pairs.shape[1], left.shape[1]
    out = left.new_empty(count, 2 * width)
    _pair_features[(count,)](left, right, pairs, out, width, block=triton.next_power_of_2(width))
    return out


@triton.jit
def _pair_features(left, right, pairs, out, width, block: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    row, column = tl.load(pairs + pair), tl.load(pairs + tl.num_programs(0) + pair)
    at = tl.arange(0, block)
    inside = at < width
    a = tl.load(left + row * width + at, inside).to(tl.float32)
    b = tl.load(right + column * width + at, inside).to(tl.float32)
    start = out + pair * 2 * width
    tl.store(start + at, a * b, inside)
    tl.store(start + width + at, tl.abs(a - b), inside)


def first_activation(shared: Tensor, pairs: Tensor, *sides: tuple[Tensor, Tensor]) -> Tensor:
    """(sides, P, W) tanh of the sum of the pair part and each side's row and column parts."""
    count, width = shared.shape
    out = shared.new_empty(len(sides), count, width)
    block = min(1024, triton.next_power_of_2(width))
    _first_activation[(count, triton.cdiv(width, block))](
        shared, pairs, *sides[0], *sides[-1], out, width, both=len(sides) == 2, block=block)
    return out


@triton.jit
def _first_activation(shared, pairs, row_part, column_part, row_reversed, column_reversed, out,
                      width, both: tl.constexpr, block: tl.constexpr):
    pair, count = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    row, column = tl.load(pairs + pair), tl.load(pairs + count + pair)
    at = tl.program_id(1) * block + tl.arange(0, block)
    inside = at < width
    common = tl.load(shared + pair * width + at, inside).to(tl.float32)
    a = tl.load(row_part + row * width + at, inside).to(tl.float32)
    b = tl.load(column_part + column * width + at, inside).to(tl.float32)
    tl.store(out + pair * width + at, _tanh(common + a + b), inside)
    if both:
        a = tl.load(row_reversed + row * width + at, inside).to(tl.float32)
        b = tl.load(column_reversed + column * width + at, inside).to(tl.float32)
        tl.store(out + (count + pair) * width + at, _tanh(common + a + b), inside)


def last_layer(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(N,) float32: tanh(hidden (N, W)) @ weight (W,) + bias (1,)."""
    count, width = hidden.shape
    out = torch.empty(count, dtype=torch.float32, device=hidden.device)
    if count:
        _last_layer[(count,)](hidden, weight, bias, out, width,
                              block=triton.next_power_of_2(width))
    return out


@triton.jit
def _last_layer(hidden, weight, bias, out, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < width
    values = tl.load(hidden + row * width + at, inside, other=0).to(tl.float32)
    weights = tl.load(weight + at, inside, other=0).to(tl.float32)
    total = tl.sum(_tanh(values) * weights, axis=0)
    tl.store(out + row, total + tl.load(bias).to(tl.float32))


@triton.jit
def _tanh(x):
    # accurate to float32's last digits; correct (1 or -1) even if exp overflows
    return 1 - 2 / (tl.exp(2 * x) + 1)


def token_sums(hidden: Tensor, starts: Tensor) -> Tensor:
    """(B, D) float32: sums over the tokens of each text; `starts` has the B + 1 boundaries."""
    count, width = len(starts) - 1, hidden.shape[1]
    out = torch.empty(count, width, dtype=torch.float32, device=hidden.device)
    block = min(256, triton.next_power_of_2(width))
    _token_sums[(count, triton.cdiv(width, block))](hidden, starts, out, width, block=block)
    return out


@triton.jit
def _token_sums(hidden, starts, out, width, block: tl.constexpr):
    text = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    inside = at < width
    token, end = tl.load(starts + text), tl.load(starts + text + 1)
    total = tl.zeros([block], dtype=tl.float32)
    while token < end:
        total += tl.load(hidden + token.to(tl.int64) * width + at, inside, other=0).to(tl.float32)
        token += 1
    tl.store(out + text * width + at, total, inside)


def attention(qkv: Tensor, starts: Tensor, longest: int, heads: int, fillers: int = 0) -> Tensor:
    """(T, D) attention of each token to the tokens of its text; qkv (T, 3D) is query, key, value.

    Up to `fillers` tokens at the end may belong to no text.
    """
    count, width = len(qkv), qkv.shape[1] // (3 * heads)
    out = qkv.new_empty(count, heads * width)
    if fillers:
        out[-fillers:] = 0  # uninitialised memory may hold NaN
    block = 64
    grid = (len(starts) - 1, heads, triton.cdiv(longest, block))
    _attention[grid](qkv, starts, out, heads, width, width**-0.5, block=block,
                     padded=max(16, triton.next_power_of_2(width)))
    return out


@triton.jit
def _attention(qkv, starts, out, heads, width, scale, block: tl.constexpr, padded: tl.constexpr):
    text, head, first = tl.program_id(0), tl.program_id(1), tl.program_id(2) * block
    start = tl.load(starts + text)
    length = tl.load(starts + text + 1) - start
    if first < length:
        row, at = tl.arange(0, block), tl.arange(0, padded)
        inside = (at < width)[None]
        stride = 3 * heads * width
        base = qkv + start.to(tl.int64) * stride + head * width + at[None]
        query_row = (first + row)[:, None]
        query = tl.load(base + query_row * stride, (query_row < length) & inside, other=0)
        running_max = tl.full([block], float("-inf"), tl.float32)
        norm = tl.zeros([block], tl.float32)
        accumulated = tl.zeros([block, padded], tl.float32)
        key_start = 0
        while key_start < length:  # online softmax
            key_row = (key_start + row)[:, None]
            place, valid = base + key_row * stride, (key_row < length) & inside
            key = tl.load(place + heads * width, valid, other=0)
            value = tl.load(place + 2 * heads * width, valid, other=0)
            score = tl.dot(query, tl.trans(key)) * scale
            score = tl.where((key_start + row)[None] < length, score, float("-inf"))
            new_max = tl.maximum(running_max, tl.max(score, axis=1))
            weight = tl.exp(score - new_max[:, None])
            rescale = tl.exp(running_max - new_max)
            norm = norm * rescale + tl.sum(weight, axis=1)
            accumulated = accumulated * rescale[:, None] + tl.dot(weight.to(value.dtype), value)
            running_max = new_max
            key_start += block
        result = out + (start + query_row).to(tl.int64) * heads * width + head * width + at[None]
        tl.store(result, accumulated / norm[:, None], (query_row < length) & inside)
