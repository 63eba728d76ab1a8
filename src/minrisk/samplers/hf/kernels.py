"""Triton kernels for attention, likely tokens and KV cache copies: each reads its input once.

They run on CUDA, and for tests on the CPU under Triton's interpreter. Sums are in float32, whatever
the numbers in memory are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TOKENS_PER_BLOCK = 16  # tokens that a row attends to at once
_VOCABULARY_PER_BLOCK = 4096  # tokens of the vocabulary in a block
_NUMBERS_PER_BLOCK = 1024  # numbers in a block of a copy


def self_attention(queries: Tensor, keys: Tensor, values: Tensor, cache: Tensor,
                   position: Tensor) -> Tensor:
    """(R, heads, D) attention of rows to their own prefixes, whose keys and values are cached.

    The cache is (2, slots, heads, T, D); row r is slot r, and its new key and value, (R, heads, D)
    each, are written at the position (1,).
    """
    rows, heads, size = queries.shape
    out = torch.empty_like(queries)
    _self_attention[(rows, heads)](queries, keys, values, cache, out, position, cache.shape[3],
                                   cache.stride(0), size ** -0.5, heads=heads, size=size,
                                   width=triton.next_power_of_2(size), block=_TOKENS_PER_BLOCK,
                                   num_warps=1)
    return out


@triton.jit
def _self_attention(queries, keys, values, cache, out, position, capacity, value_offset, scale,
                    heads: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
                    block: tl.constexpr):
    offset = tl.program_id(0).to(tl.int64) * heads + tl.program_id(1)
    at = tl.arange(0, width)
    inside = at < size
    query = tl.load(queries + offset * size + at, inside, other=0).to(tl.float32) * scale
    key = tl.load(keys + offset * size + at, inside, other=0)
    value = tl.load(values + offset * size + at, inside, other=0)
    now = tl.load(position)
    start = cache + offset * capacity * size
    tl.store(start + now * size + at, key, inside)
    tl.store(start + value_offset + now * size + at, value, inside)
    # the new token first, whose key and value are still in registers
    running_max = tl.sum(query * key.to(tl.float32), axis=0)
    found = _attend(query, start, start + value_offset, now, running_max, running_max * 0 + 1,
                    value.to(tl.float32), size, width, block)
    tl.store(out + offset * size + at, found, inside)


def cross_attention(queries: Tensor, cache: Tensor, source: Tensor, lengths: Tensor) -> Tensor:
    """(R, heads, D) attention of rows to their sources, whose keys and values are cached.

    The cache is (2, S, heads, L, D); row r attends to `source[r]`, which has `lengths[source[r]]`
    tokens.
    """
    rows, heads, size = queries.shape
    out = torch.empty_like(queries)
    _cross_attention[(rows, heads)](queries, cache, out, source, lengths, cache.shape[3],
                                    cache.stride(0), size ** -0.5, heads=heads, size=size,
                                    width=triton.next_power_of_2(size), block=_TOKENS_PER_BLOCK,
                                    num_warps=1)
    return out


@triton.jit
def _cross_attention(queries, cache, out, source, lengths, capacity, value_offset, scale,
                     heads: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
                     block: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    offset = row.to(tl.int64) * heads + head
    at = tl.arange(0, width)
    inside = at < size
    query = tl.load(queries + offset * size + at, inside, other=0).to(tl.float32) * scale
    own = tl.load(source + row).to(tl.int64)
    start = cache + (own * heads + head) * capacity * size
    nothing = tl.zeros([width], tl.float32)
    none = tl.sum(nothing, axis=0)
    found = _attend(query, start, start + value_offset, tl.load(lengths + own), none - float("inf"),
                    none, nothing, size, width, block)
    tl.store(out + offset * size + at, found, inside)


@triton.jit
def _attend(query, keys, values, length, running_max, mass, found, size: tl.constexpr,
            width: tl.constexpr, block: tl.constexpr):
    """Softmax attention, continued from a running maximum, mass and weighted sum of values."""
    at = tl.arange(0, width)
    first = 0
    while first < length:  # Triton's interpreter knows no range up to a number from memory
        token = first + tl.arange(0, block)
        where = token[:, None] * size + at[None, :]
        inside = (token[:, None] < length) & (at[None, :] < size)
        key = tl.load(keys + where, inside, other=0).to(tl.float32)
        scores = tl.where(token < length, tl.sum(query[None, :] * key, axis=1), float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, axis=0))
        weights, rescale = tl.exp(scores - new_max), tl.exp(running_max - new_max)
        value = tl.load(values + where, inside, other=0).to(tl.float32)
        found = found * rescale + tl.sum(weights[:, None] * value, axis=0)
        mass = mass * rescale + tl.sum(weights, axis=0)
        running_max = new_max
        first += block
    return found / mass


def likely(logits: Tensor, least: float, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens whose log-probability is `least` or more, and the likeliest in any case.

    Of logits (R, V): tokens and their log-probabilities, (R, width) each, in no order, where there
    is none 0 and -inf; and the logarithms (R,) of the sums that make probabilities of the logits.
    """
    rows, vocabulary = logits.shape
    tokens = torch.zeros(rows, width, dtype=torch.int64, device=logits.device)
    scores = torch.full((rows, width), float("-inf"), device=logits.device)
    totals = torch.empty(rows, device=logits.device)
    _likely[(rows,)](logits, tokens, scores, totals, least, width, vocabulary=vocabulary,
                     block=_VOCABULARY_PER_BLOCK, num_warps=8)
    return tokens, scores, totals


@triton.jit
def _likely(logits, tokens, scores, totals, least, width, vocabulary: tl.constexpr,
            block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * vocabulary
    # below any logit, and finite
    running_max = -1e30 + tl.sum(tl.zeros([block], tl.float32), axis=0)
    mass = tl.zeros([block], tl.float32)
    for first in range(0, vocabulary, block):
        token = first + tl.arange(0, block)
        logit = tl.load(logits + token, token < vocabulary, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(running_max, tl.max(logit, axis=0))
        mass = mass * tl.exp(running_max - new_max) + tl.exp(logit - new_max)
        running_max = new_max
    total = running_max + tl.log(tl.sum(mass, axis=0))
    threshold = tl.minimum(total + least, running_max)
    count = 0
    for first in range(0, vocabulary, block):
        token = first + tl.arange(0, block)
        logit = tl.load(logits + token, token < vocabulary, other=float("-inf")).to(tl.float32)
        keep = logit >= threshold
        if tl.max(keep.to(tl.int32), axis=0) > 0:
            offset = count + tl.cumsum(keep.to(tl.int32), axis=0) - 1
            count += tl.sum(keep.to(tl.int32), axis=0)
            keep &= offset < width
            out = row * width + offset
            tl.store(tokens + out, token.to(tl.int64), keep)
            tl.store(scores + out, logit - total, keep)
    tl.store(totals + row, total)


def copy_rows(source: Tensor, target: Tensor, rows: Tensor, to: Tensor, length: int) -> None:
    """Copies the keys and values of the first tokens from `rows` (N,) to rows `to` (N,).

    From `source` (..., slots, heads, T, D) to `target`, which may be the same, or have more slots
    or room; no row is then both read and written.
    """
    heads, size = source.shape[-3], source.shape[-1]
    parts = source[..., 0, 0, 0, 0].numel()
    _copy_rows[(len(rows), parts * heads)](
        source, target, rows, to, length * size, source.stride(-5), target.stride(-5),
        source.stride(-4), target.stride(-4), source.stride(-3), target.stride(-3), heads=heads,
        block=_NUMBERS_PER_BLOCK)


@triton.jit
def _copy_rows(source, target, rows, to, count, from_part, to_part, from_row, to_row, from_head,
               to_head, heads: tl.constexpr, block: tl.constexpr):
    one, part = tl.program_id(0), (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    source += part * from_part + tl.load(rows + one).to(tl.int64) * from_row + head * from_head
    target += part * to_part + tl.load(to + one).to(tl.int64) * to_row + head * to_head
    first = 0
    while first < count:
        at = first + tl.arange(0, block)
        tl.store(target + at, tl.load(source + at, at < count), at < count)
        first += block
