"""Triton kernels for continuations that attend to a shared prompt and to their own tokens.

The first kernel reads the prompt's keys once per tile of continuations and stores unnormalised
sums; the second one adds each continuation's own tokens. Both accumulate in float32 for any type in
memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from minrisk.samplers.hf.kernels import (
    MIN_DOT,
    attend,
    attend_to_sources,
    capped,
    dot_precision,
    own_tokens,
)

_QUERIES_PER_TILE = 64
_PROMPT_TOKENS_PER_BLOCK = 64
_OWN_TOKENS_PER_BLOCK = 32
_PROGRAMS = 264  # two per multiprocessor of a large GPU
_MAX_SPLITS = 16  # maximum number of programs that share a prompt (split-K)


def shared_prompt_attention(queries: Tensor, keys: Tensor, values: Tensor, cache: Tensor,
                            layer: int, source: Tensor, scale: float,
                            softcap: float | None) -> Tensor:
    """(R, heads, D) attention of the queries to their prompts and to their own tokens.

    `cache` holds the addresses of keys and values (`KVCache.addresses`); the new ones, (R, kv
    heads, D) each, are written there. `source[r]` is the prompt of row r; rows of the same prompt
    are adjacent.
    """
    rows, heads, size = queries.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    width = max(MIN_DOT, triton.next_power_of_2(size))
    tile = max(1, _QUERIES_PER_TILE // triton.next_power_of_2(group))
    tile = max(tile, MIN_DOT // triton.next_power_of_2(group))
    tiles = triton.cdiv(rows, tile)
    splits = max(1, min(_MAX_SPLITS, _PROGRAMS // (tiles * kv_heads)))
    sums = torch.empty(splits, rows, heads, size, dtype=torch.float32, device=queries.device)
    tops = torch.empty(splits, rows, heads, dtype=torch.float32, device=queries.device)
    masses = torch.empty_like(tops)
    shape = {"heads": heads, "kv_heads": kv_heads, "size": size, "width": width, "group": group,
             "softcap": softcap or 0.0, "precision": dot_precision(queries)}
    _prompt_part[(tiles, kv_heads, splits)](
        queries.contiguous(), cache, sums, tops, masses, source, layer, rows, scale, tile=tile,
        group_width=triton.next_power_of_2(group), splits=splits, block=_PROMPT_TOKENS_PER_BLOCK,
        **shape)
    out = torch.empty(rows, heads, size, dtype=queries.dtype, device=queries.device)
    _own_part[(rows, kv_heads)](
        queries.contiguous(), keys.contiguous(), values.contiguous(), cache, out, sums, tops,
        masses, layer, rows, scale,
        group_width=max(MIN_DOT, triton.next_power_of_2(group)), splits=splits,
        block=_OWN_TOKENS_PER_BLOCK, num_warps=2, **shape)
    return out


@triton.jit
def _prompt_part(queries, cache, sums, tops, masses, source, layer, rows, scale,
                 tile: tl.constexpr, group_width: tl.constexpr, splits: tl.constexpr,
                 block: tl.constexpr, heads: tl.constexpr, kv_heads: tl.constexpr,
                 size: tl.constexpr, width: tl.constexpr, group: tl.constexpr,
                 softcap: tl.constexpr, precision: tl.constexpr):
    kv_head, split = tl.program_id(1), tl.program_id(2)
    lane = tl.arange(0, tile * group_width)
    place, member = tl.program_id(0) * tile + lane // group_width, lane % group_width
    is_row = (place < rows) & (member < group)
    row = place.to(tl.int64)
    prompt = tl.load(source + row, is_row, other=-1)
    head = row * heads + kv_head * group + member
    at = tl.arange(0, width)
    query = tl.load(queries + head[:, None] * size + at[None, :],
                    is_row[:, None] & (at[None, :] < size), other=0)
    found, mass, top = attend_to_sources(query, prompt, is_row, cache, layer, queries, kv_head,
                                         kv_heads, scale, split, splits, softcap,
                                         tile * group_width, block, size, width, precision)
    out = split.to(tl.int64) * rows * heads + head
    tl.store(tops + out, top, is_row)
    tl.store(masses + out, mass, is_row)
    tl.store(sums + out[:, None] * size + at[None, :], found,
             is_row[:, None] & (at[None, :] < size))


@triton.jit
def _own_part(queries, keys, values, cache, out, sums, tops, masses, layer, rows, scale,
              group_width: tl.constexpr, splits: tl.constexpr,
              block: tl.constexpr, heads: tl.constexpr, kv_heads: tl.constexpr, size: tl.constexpr,
              width: tl.constexpr, group: tl.constexpr, softcap: tl.constexpr,
              precision: tl.constexpr):
    row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    member, at = tl.arange(0, group_width), tl.arange(0, width)
    inside = (member[:, None] < group) & (at[None, :] < size)
    head = row * heads + kv_head * group + member
    where = head[:, None] * size + at[None, :]
    query = tl.load(queries + where, inside, other=0)
    new = (row * kv_heads + kv_head) * size
    key = tl.load(keys + new + at, at < size, other=0)
    value = tl.load(values + new + at, at < size, other=0)
    old_keys, old_values, paths, now = own_tokens(cache, layer, row, queries)
    old_keys += kv_head * size
    old_values += kv_head * size
    slot = tl.load(paths + now).to(tl.int64) * kv_heads * size
    tl.store(old_keys + slot + at, key, at < size)
    tl.store(old_values + slot + at, value, at < size)
    # the new token first, while it is still in registers
    top = tl.sum(query.to(tl.float32) * key[None, :].to(tl.float32), axis=1) * scale
    top = capped(top, softcap)
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
        slots = tl.load(paths + token, token < now, other=0).to(tl.int64)
        places = slots[:, None] * kv_heads * size + at[None, :]
        known = (token[:, None] < now) & (at[None, :] < size)
        found, mass, top = attend(found, mass, top, query, old_keys + places, old_values + places,
                                  known, (token < now)[None, :], scale, softcap, precision)
        first += block
    tl.store(out + where, found / mass[:, None], inside)
