"""Triton kernels for continuations that attend to a prompt they share, and to their own tokens.

The first reads the prompt's keys once for a tile of continuations and leaves unnormalised sums; the
second goes on from there with the tokens that each continuation has of its own. Sums are in
float32, whatever the numbers in memory are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_QUERIES_PER_TILE = 64
_PROMPT_TOKENS_PER_BLOCK = 64
_OWN_TOKENS_PER_BLOCK = 32
_MIN_DOT = 16  # rows of the smallest matrix that the tensor cores take
_PROGRAMS = 264  # two for each multiprocessor of a large GPU
_MAX_SPLITS = 16  # parts of a prompt that are read by programs of their own


def shared_prompt_attention(queries: Tensor, keys: Tensor, values: Tensor, prompt_kv: Tensor,
                            own_kv: Tensor, position: Tensor, source: Tensor, order: Tensor,
                            lengths: Tensor, scale: float, softcap: float | None) -> Tensor:
    """(R, heads, D) attention of rows (R, heads, D) to their prompts and to their own tokens.

    `prompt_kv` is (2, S, kv heads, L, D), of which row r attends to `source[r]` with
    `lengths[source[r]]` tokens; `own_kv` is (2, slots, kv heads, T, D), where row r is slot r, and
    its new key and value, (R, kv heads, D) each, are written at the position (1,). `order` (R,)
    has rows of one prompt side by side.
    """
    rows, heads, size = queries.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    width = max(_MIN_DOT, triton.next_power_of_2(size))
    tile = max(1, _QUERIES_PER_TILE // triton.next_power_of_2(group))
    tile = max(tile, _MIN_DOT // triton.next_power_of_2(group))
    tiles = triton.cdiv(rows, tile)
    splits = max(1, min(_MAX_SPLITS, _PROGRAMS // (tiles * kv_heads)))
    precision = "ieee" if queries.dtype == torch.float32 else "tf32"
    sums = torch.empty(splits, rows, heads, size, dtype=torch.float32, device=queries.device)
    tops = torch.empty(splits, rows, heads, dtype=torch.float32, device=queries.device)
    masses = torch.empty_like(tops)
    shape = {"heads": heads, "kv_heads": kv_heads, "size": size, "width": width, "group": group,
             "softcap": softcap or 0.0, "precision": precision}
    _prompt_part[(tiles, kv_heads, splits)](
        queries.contiguous(), prompt_kv, sums, tops, masses, order, source, lengths, rows,
        prompt_kv.shape[3], prompt_kv.stride(0), scale, tile=tile,
        group_width=triton.next_power_of_2(group), splits=splits, block=_PROMPT_TOKENS_PER_BLOCK,
        **shape)
    out = torch.empty(rows, heads, size, dtype=queries.dtype, device=queries.device)
    _own_part[(rows, kv_heads)](
        queries.contiguous(), keys.contiguous(), values.contiguous(), own_kv, out, sums, tops,
        masses, position, rows, own_kv.shape[3], own_kv.stride(0), scale,
        group_width=max(_MIN_DOT, triton.next_power_of_2(group)), splits=splits,
        block=_OWN_TOKENS_PER_BLOCK, num_warps=2, **shape)
    return out


@triton.jit
def _prompt_part(queries, cache, sums, tops, masses, order, source, lengths, rows, room, to_values,
                 scale, tile: tl.constexpr, group_width: tl.constexpr, splits: tl.constexpr,
                 block: tl.constexpr, heads: tl.constexpr, kv_heads: tl.constexpr,
                 size: tl.constexpr, width: tl.constexpr, group: tl.constexpr,
                 softcap: tl.constexpr, precision: tl.constexpr):
    kv_head, split = tl.program_id(1), tl.program_id(2)
    lane = tl.arange(0, tile * group_width)
    place, member = tl.program_id(0) * tile + lane // group_width, lane % group_width
    is_row = (place < rows) & (member < group)
    row = tl.load(order + place, place < rows, other=0).to(tl.int64)
    prompt = tl.load(source + row, is_row, other=-1)
    head = row * heads + kv_head * group + member
    at = tl.arange(0, width)
    query = tl.load(queries + head[:, None] * size + at[None, :],
                    is_row[:, None] & (at[None, :] < size), other=0)
    top = tl.full([tile * group_width], -1e30, tl.float32)  # a number, so that differences are
    mass = tl.zeros([tile * group_width], tl.float32)
    found = tl.zeros([tile * group_width, width], tl.float32)
    last = tl.max(prompt, axis=0)
    now = tl.min(tl.where(is_row, prompt, last), axis=0)
    while now <= last:  # one prompt nearly always
        length = tl.load(lengths + now)
        share = tl.cdiv(tl.cdiv(length, splits), block) * block
        first = split * share
        end = tl.minimum(length, first + share)
        start = cache + (now.to(tl.int64) * kv_heads + kv_head) * room * size
        while first < end:
            token = first + tl.arange(0, block)
            where = token[:, None] * size + at[None, :]
            inside = (token[:, None] < end) & (at[None, :] < size)
            key = tl.load(start + where, inside, other=0)
            score = tl.dot(query, tl.trans(key), input_precision=precision) * scale
            if softcap > 0:
                score = softcap * (1 - 2 / (tl.exp(2 * score / softcap) + 1))
            valid = (prompt == now)[:, None] & (token < end)[None, :]
            score = tl.where(valid, score, -1e30)
            higher = tl.maximum(top, tl.max(score, axis=1))
            shares = tl.where(valid, tl.exp(score - higher[:, None]), 0.0)
            fade = tl.exp(top - higher)
            value = tl.load(start + to_values + where, inside, other=0)
            found = found * fade[:, None] + tl.dot(shares.to(value.dtype), value,
                                                   input_precision=precision)
            mass = mass * fade + tl.sum(shares, axis=1)
            top = higher
            first += block
        now += 1
    out = split.to(tl.int64) * rows * heads + head
    tl.store(tops + out, top, is_row)
    tl.store(masses + out, mass, is_row)
    tl.store(sums + out[:, None] * size + at[None, :], found,
             is_row[:, None] & (at[None, :] < size))


@triton.jit
def _own_part(queries, keys, values, cache, out, sums, tops, masses, position, rows, room,
              to_values, scale, group_width: tl.constexpr, splits: tl.constexpr,
              block: tl.constexpr, heads: tl.constexpr, kv_heads: tl.constexpr, size: tl.constexpr,
              width: tl.constexpr, group: tl.constexpr, softcap: tl.constexpr,
              precision: tl.constexpr):
    row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    member, at = tl.arange(0, group_width), tl.arange(0, width)
    inside = (member[:, None] < group) & (at[None, :] < size)
    head = row * heads + kv_head * group + member
    where = head[:, None] * size + at[None, :]
    query = tl.load(queries + where, inside, other=0)
    slot = row * kv_heads + kv_head
    key = tl.load(keys + slot * size + at, at < size, other=0)
    value = tl.load(values + slot * size + at, at < size, other=0)
    now = tl.load(position)
    start = cache + slot * room * size
    tl.store(start + now * size + at, key, at < size)
    tl.store(start + to_values + now * size + at, value, at < size)
    # the new token first, from where it still is at hand
    top = tl.sum(query.to(tl.float32) * key[None, :].to(tl.float32), axis=1) * scale
    if softcap > 0:
        top = softcap * (1 - 2 / (tl.exp(2 * top / softcap) + 1))
    mass = tl.full([group_width], 1.0, tl.float32)
    found = tl.zeros([group_width, width], tl.float32) + value[None, :].to(tl.float32)
    for split in tl.static_range(splits):
        part = split * rows * heads + head
        other = tl.load(tops + part, member < group, other=-1e30)
        higher = tl.maximum(top, other)
        fade, weight = tl.exp(top - higher), tl.exp(other - higher)
        mass = mass * fade + weight * tl.load(masses + part, member < group, other=0)
        there = tl.load(sums + part[:, None] * size + at[None, :], inside, other=0)
        found = found * fade[:, None] + weight[:, None] * there
        top = higher
    first = now * 0
    while first < now:
        token = first + tl.arange(0, block)
        places = token[:, None] * size + at[None, :]
        known = (token[:, None] < now) & (at[None, :] < size)
        keys_there = tl.load(start + places, known, other=0)
        score = tl.dot(query, tl.trans(keys_there), input_precision=precision) * scale
        if softcap > 0:
            score = softcap * (1 - 2 / (tl.exp(2 * score / softcap) + 1))
        score = tl.where((token < now)[None, :], score, -1e30)
        higher = tl.maximum(top, tl.max(score, axis=1))
        shares, fade = tl.exp(score - higher[:, None]), tl.exp(top - higher)
        values_there = tl.load(start + to_values + places, known, other=0)
        found = found * fade[:, None] + tl.dot(shares.to(values_there.dtype), values_there,
                                               input_precision=precision)
        mass = mass * fade + tl.sum(shares, axis=1)
        top = higher
        first += block
    tl.store(out + where, found / mass[:, None], inside)
