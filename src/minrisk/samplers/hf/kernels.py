"""Triton kernels for attention and for finding likely tokens.

They run on CUDA, and in tests on the CPU with Triton's interpreter. They accumulate in float32 for
any type in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MIN_DOT = 16  # minimum rows of a matrix product on tensor cores
_TOKENS_PER_BLOCK = 16  # block size over a row's own tokens
_ROWS_PER_TILE, _SOURCE_TOKENS_PER_BLOCK = 64, 32  # tile of rows, block of source tokens
_VOCABULARY_LANES, _TOKENS_PER_LANE = 1024, 8  # tile of the vocabulary
_LANES_PER_BLOCK = 8  # lanes that are compacted at once


def self_attention(queries: Tensor, keys: Tensor, values: Tensor, cache: Tensor,
                   layer: int) -> Tensor:
    """(R, heads, D) attention of rows to the cached keys and values of their own prefixes.

    `cache` holds the addresses (`KVCache.addresses`); the new keys and values, (R, heads, D) each,
    are written there. They and the queries may be slices of one fused projection.
    """
    rows, heads, size = queries.shape
    out = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
    # heads of a row in successive programs, because their keys and values are adjacent
    _self_attention[(rows * heads,)](queries, keys, values, cache, out, layer, queries.stride(0),
                                     keys.stride(0), size ** -0.5, heads=heads, size=size,
                                     width=triton.next_power_of_2(size), block=_TOKENS_PER_BLOCK,
                                     num_warps=1)
    return out


@triton.jit
def _self_attention(queries, keys, values, cache, out, layer, query_stride, key_stride, scale,
                    heads: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
                    block: tl.constexpr):
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    at = tl.arange(0, width)
    inside = at < size
    new = row * key_stride + head * size + at
    query = tl.load(queries + row * query_stride + head * size + at, inside, other=0)
    query = query.to(tl.float32) * scale
    key = tl.load(keys + new, inside, other=0)
    value = tl.load(values + new, inside, other=0)
    old_keys, old_values, paths, now = own_tokens(cache, layer, row, queries)
    old_keys += head * size
    old_values += head * size
    slot = tl.load(paths + now).to(tl.int64) * heads * size
    tl.store(old_keys + slot + at, key, inside)
    tl.store(old_values + slot + at, value, inside)
    # the new token first, whose key and value are still in registers
    running_max = tl.sum(query * key.to(tl.float32), axis=0)
    mass = running_max * 0 + 1
    found = value.to(tl.float32)
    first = now * 0
    while first < now:  # Triton's interpreter has no range() with a bound from memory
        token = first + tl.arange(0, block)
        slots = tl.load(paths + token, token < now, other=0).to(tl.int64)
        where = slots[:, None] * heads * size + at[None, :]
        known = (token[:, None] < now) & inside[None, :]
        some_keys = tl.load(old_keys + where, known, other=0).to(tl.float32)
        scores = tl.where(token < now, tl.sum(query[None, :] * some_keys, axis=1), float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, axis=0))
        weights, rescale = tl.exp(scores - new_max), tl.exp(running_max - new_max)
        some_values = tl.load(old_values + where, known, other=0).to(tl.float32)
        found = found * rescale + tl.sum(weights[:, None] * some_values, axis=0)
        mass = mass * rescale + tl.sum(weights, axis=0)
        running_max = new_max
        first += block
    tl.store(out + (row * heads + head) * size + at, found / mass, inside)


@triton.jit
def own_tokens(cache, layer, row, like):
    """Pointers to a layer's keys and values and to a row's slots, and the slot of its new token."""
    start, stride = tl.load(cache), tl.load(cache + 1)
    start += layer * 2 * stride
    paths = tl.load(cache + 2).to(tl.pointer_type(tl.int32)) + row * tl.load(cache + 3)
    return (_pointer(start, like), _pointer(start + stride, like), paths, tl.load(cache + 8))


@triton.jit
def shared_tokens(cache, layer, like):
    """Pointers to a layer's keys and values of the sources, and the capacity of each source."""
    start, stride = tl.load(cache + 4), tl.load(cache + 5)
    start += layer * 2 * stride
    return _pointer(start, like), _pointer(start + stride, like), tl.load(cache + 6)


@triton.jit
def source_lengths(cache):
    return tl.load(cache + 7).to(tl.pointer_type(tl.int64))


@triton.jit
def _pointer(address, like):
    """An address as a pointer of the type of `like`; the hint allows loads of 16 bytes."""
    return tl.multiple_of(address.to(tl.pointer_type(like.dtype.element_ty)), 16)


def cross_attention(queries: Tensor, cache: Tensor, layer: int, source: Tensor) -> Tensor:
    """(R, heads, D) attention of rows to the cached keys and values of their sources.

    `cache` holds the addresses (`KVCache.addresses`); rows of the same source are adjacent.
    """
    rows, heads, size = queries.shape
    out = torch.empty_like(queries)
    _cross_attention[(triton.cdiv(rows, _ROWS_PER_TILE), heads)](
        queries, cache, out, source, layer, rows, size ** -0.5, tile=_ROWS_PER_TILE,
        block=_SOURCE_TOKENS_PER_BLOCK, heads=heads, size=size,
        width=max(MIN_DOT, triton.next_power_of_2(size)), precision=dot_precision(queries))
    return out


@triton.jit
def _cross_attention(queries, cache, out, source, layer, rows, scale, tile: tl.constexpr,
                     block: tl.constexpr, heads: tl.constexpr, size: tl.constexpr,
                     width: tl.constexpr, precision: tl.constexpr):
    row, head = tl.program_id(0) * tile + tl.arange(0, tile), tl.program_id(1)
    is_row = row < rows
    at = tl.arange(0, width)
    where = (row[:, None].to(tl.int64) * heads + head) * size + at[None, :]
    inside = is_row[:, None] & (at[None, :] < size)
    query = tl.load(queries + where, inside, other=0)
    own = tl.load(source + row, is_row, other=-1)
    found, mass, _ = attend_to_sources(query, own, is_row, cache, layer, queries, head, heads,
                                       scale, 0, 1, 0.0, tile, block, size, width, precision)
    tl.store(out + where, found / tl.where(is_row, mass, 1.0)[:, None], inside)


@triton.jit
def attend_to_sources(query, own, is_row, cache, layer, like, head, heads, scale, split,
                      splits: tl.constexpr, softcap: tl.constexpr, tile: tl.constexpr,
                      block: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
                      precision: tl.constexpr):
    """Attention of a tile of rows to their sources `own` (ascending), each of which is read once.

    Only one of `splits` parts of each source is read. Returns weighted sums of values (tile,
    width), the masses (tile,) to divide them by, and the running maxima (tile,).
    """
    keys, values, room = shared_tokens(cache, layer, like)
    lengths = source_lengths(cache)
    at = tl.arange(0, width)
    top = tl.full([tile], -1e30, tl.float32)  # finite, because -inf - -inf is NaN
    mass = tl.zeros([tile], tl.float32)
    found = tl.zeros([tile, width], tl.float32)
    last = tl.max(own, axis=0)
    now = tl.min(tl.where(is_row, own, last), axis=0)
    while now <= last:  # nearly always a single source
        length = tl.load(lengths + now)
        share = tl.cdiv(tl.cdiv(length, splits), block) * block
        first = split * share
        end = tl.minimum(length, first + share)
        start = (now.to(tl.int64) * heads + head) * room * size
        while first < end:
            token = first + tl.arange(0, block)
            where = start + token[:, None] * size + at[None, :]
            inside = (token[:, None] < end) & (at[None, :] < size)
            valid = (own == now)[:, None] & (token < end)[None, :]
            found, mass, top = attend(found, mass, top, query, keys + where, values + where, inside,
                                      valid, scale, softcap, precision)
            first += block
        now += 1
    return found, mass, top


@triton.jit
def attend(found, mass, top, query, keys, values, inside, valid, scale, softcap: tl.constexpr,
           precision: tl.constexpr):
    """Update the online softmax (sums, masses, maxima) of rows with a block of tokens, at the
    pointers `keys` and `values`; rows attend only to valid tokens.
    """
    key = tl.load(keys, inside, other=0)
    score = capped(tl.dot(query, tl.trans(key), input_precision=precision) * scale, softcap)
    score = tl.where(valid, score, -1e30)
    higher = tl.maximum(top, tl.max(score, axis=1))
    shares = tl.where(valid, tl.exp(score - higher[:, None]), 0.0)
    fade = tl.exp(top - higher)
    value = tl.load(values, inside, other=0)
    found = found * fade[:, None] + tl.dot(shares.to(value.dtype), value, input_precision=precision)
    return found, mass * fade + tl.sum(shares, axis=1), higher


@triton.jit
def capped(score, softcap: tl.constexpr):
    """Scores with tanh soft-capping; 0 disables it."""
    if softcap > 0:
        score = softcap * (1 - 2 / (tl.exp(2 * score / softcap) + 1))
    return score


def dot_precision(queries: Tensor) -> str:
    """The precision of matrix products in kernels; full precision for fp32."""
    return "ieee" if queries.dtype == torch.float32 else "tf32"


def likely(logits: Tensor, least: float, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tokens whose log-probability is at least `least`, and always the most likely one.

    For logits (R, V), returns unordered tokens and their log-probabilities, (R, width) each, padded
    with 0 and -inf, the logsumexp (R,) of the logits, and the sum and the number (R, 2) of those
    that are not -inf.
    """
    rows, vocabulary = logits.shape
    lanes = torch.empty(rows, width, dtype=torch.int32, device=logits.device)
    counts = torch.empty(rows, dtype=torch.int32, device=logits.device)
    totals, thresholds = (torch.empty(rows, device=logits.device) for _ in range(2))
    finite = torch.empty(rows, 2, device=logits.device)
    _likely_lanes[(rows,)](logits, lanes, counts, totals, thresholds, finite, least, width,
                           vocabulary=vocabulary, lanes=_VOCABULARY_LANES, depth=_TOKENS_PER_LANE,
                           num_warps=4)
    tokens = torch.empty(rows, width, dtype=torch.int64, device=logits.device)
    scores = torch.empty(rows, width, device=logits.device)
    _likely_tokens[(rows,)](logits, lanes, counts, totals, thresholds, tokens, scores, width,
                            vocabulary=vocabulary, lanes=_VOCABULARY_LANES, block=_LANES_PER_BLOCK,
                            depth=triton.next_power_of_2(triton.cdiv(vocabulary,
                                                                     _VOCABULARY_LANES)),
                            num_warps=1)
    return tokens, scores, totals, finite


@triton.jit
def _likely_lanes(logits, found, counts, totals, thresholds, finite, least, width,
                  vocabulary: tl.constexpr, lanes: tl.constexpr, depth: tl.constexpr):
    """Lane i covers the tokens i, i + lanes, i + 2 lanes, ...; most lanes have no likely token."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * vocabulary
    lane = tl.arange(0, lanes)
    block = tl.arange(0, depth)[:, None] * lanes + lane[None, :]
    # per lane, so that threads need not synchronise; below any logit, but finite
    tops = tl.full([lanes], -1e30, tl.float32)
    mass = tl.zeros([lanes], tl.float32)
    sums = tl.zeros([lanes], tl.float32)
    numbers = tl.zeros([lanes], tl.float32)
    for first in range(0, vocabulary, depth * lanes):
        token = first + block
        logit = tl.load(logits + token, token < vocabulary, other=float("-inf")).to(tl.float32)
        new_tops = tl.maximum(tops, tl.max(logit, axis=0))
        mass = mass * tl.exp(tops - new_tops) + tl.sum(tl.exp(logit - new_tops[None, :]), axis=0)
        tops = new_tops
        is_finite = logit > float("-inf")
        sums += tl.sum(tl.where(is_finite, logit, 0.0), axis=0)
        numbers += tl.sum(tl.where(is_finite, 1.0, 0.0), axis=0)
    top = tl.max(tops, axis=0)
    total = top + tl.log(tl.sum(mass * tl.exp(tops - top), axis=0))
    threshold = tl.minimum(total + least, top)
    has_some = (tops >= threshold).to(tl.int32)
    offset = tl.cumsum(has_some, axis=0) - 1
    tl.store(found + row * width + offset, lane, (has_some > 0) & (offset < width))
    tl.store(counts + row, tl.minimum(tl.sum(has_some, axis=0), width))
    tl.store(totals + row, total)
    tl.store(thresholds + row, threshold)
    tl.store(finite + 2 * row, tl.sum(sums, axis=0))
    tl.store(finite + 2 * row + 1, tl.sum(numbers, axis=0))


@triton.jit
def _likely_tokens(logits, found, counts, totals, thresholds, tokens, scores, width,
                   vocabulary: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
                   depth: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane_count, total = tl.load(counts + row), tl.load(totals + row)
    threshold = tl.load(thresholds + row)
    count = lane_count * 0
    first = lane_count * 0
    while first < lane_count:
        at = first + tl.arange(0, block)
        lane = tl.load(found + row * width + at, at < lane_count, other=vocabulary)
        token = tl.reshape(lane[:, None] + tl.arange(0, depth)[None, :] * lanes, [block * depth])
        logit = tl.load(logits + row * vocabulary + token, token < vocabulary,
                        other=float("-inf")).to(tl.float32)
        keep = ((token < vocabulary) & (logit >= threshold)).to(tl.int32)
        offset = count + tl.cumsum(keep, axis=0) - 1
        out = row * width + offset
        is_kept = (keep > 0) & (offset < width)
        tl.store(tokens + out, token.to(tl.int64), is_kept)
        tl.store(scores + out, logit - total, is_kept)
        count += tl.sum(keep, axis=0)
        first += block
    first = lane_count * 0
    while first < width:
        at = first + tl.arange(0, block * depth)
        is_empty = (at >= count) & (at < width)
        tl.store(tokens + row * width + at, at.to(tl.int64) * 0, is_empty)
        tl.store(scores + row * width + at, at.to(tl.float32) * 0 - float("inf"), is_empty)
        first += block * depth
