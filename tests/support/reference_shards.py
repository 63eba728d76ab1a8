"""References of one segment, and shards of them cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from minrisk import References

HYPS = ["the cat sat", "a cat sat down", "dogs ran", "the cat sat"]
REFS = ["the cat sat", "a cat", "", "the dog ran", "a cat sat", "a cat"]
WEIGHTS = [0.5, 2.0, 0.25, 0.0, 3.0, 1.0]


def shards(*cuts, weights=WEIGHTS):
    """The references from each cut to the next."""
    return [References(REFS[a:b], None if weights is None else weights[a:b], name=f"{a}-{b}")
            for a, b in pairwise([0, *cuts, len(REFS)])]
