"""The KV cache of prefixes has the tokens of every row, however rows branch and end."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")

from minrisk.samplers.hf import prefix_cache
from minrisk.samplers.hf.prefix_cache import PrefixCache


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(prefix_cache, "_MIN_SLOTS", 4)


def write(cache: PrefixCache, tokens: list[int]) -> None:
    """The keys of the new tokens are their numbers, and their values the negative ones."""
    slots = cache.paths[:, -1].long()
    numbers = torch.tensor(tokens, dtype=torch.float32)[:, None, None]
    cache.kv[:, 0, slots], cache.kv[:, 1, slots] = numbers, -numbers


def rows(cache: PrefixCache) -> list[list[int]]:
    keys, values = cache.kv[-1, :, cache.paths.long()].mean((3, 4))
    assert torch.equal(keys, -values)
    return keys.int().tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slots", [0, 7, 500])
def test_rows_have_their_tokens_however_they_branch_and_end(seed, slots):
    rng = np.random.default_rng(seed)
    cache = PrefixCache(2, 3, 4, torch.empty(0), slots)
    expected: list[list[int]] = [[] for _ in range(3)]
    for step in range(40):
        most = 12 if step < 15 else 3  # many rows, of which few go on
        parents = np.sort(rng.integers(0, len(expected), rng.integers(1, most + 1)))
        tokens = rng.integers(1, 1000, len(parents)).tolist()
        cache.append(torch.from_numpy(parents))
        write(cache, tokens)
        expected = [[*expected[parent], token]
                    for parent, token in zip(parents.tolist(), tokens, strict=True)]
        assert rows(cache) == expected
        assert cache.length == step + 1


def test_rows_that_branch_share_their_tokens():
    cache = PrefixCache(1, 1, 1, torch.empty(0), 8)
    cache.append(torch.arange(2))
    cache.append(torch.tensor([0, 0, 0, 1]))
    assert cache.paths.tolist() == [[0, 2], [0, 3], [0, 4], [1, 5]]


def test_tokens_of_ended_rows_are_overwritten_before_the_cache_grows():
    cache = PrefixCache(1, 1, 1, torch.empty(0), 64)
    for step in range(30):  # 68 tokens, of which the last row has 30
        cache.append(torch.arange(20 if step < 2 else 1))
    assert cache.kv.shape[2] == 64
