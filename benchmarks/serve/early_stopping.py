"""How many samples a vote draws before it stops: fills the table of docs/guides/cost.md.

    python benchmarks/serve/early_stopping.py

Simulated: the most frequent answer has a fixed probability, and two others share the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from minrisk._core.vote import Vote

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import pages

SHARES = (1.0, 0.9, 0.7, 0.5, 0.4)  # of the most frequent answer
LIMITS = (8, 16, 32, 64)
ERROR = 0.05  # the default of --stop-error
VOTES = 500


def drawn(share: float, limit: int, rng: Random) -> int:
    """The number of samples of one vote."""
    vote, count = Vote(ERROR), 0
    weights = [share, (1 - share) / 2, (1 - share) / 2]
    while count < limit and not vote.is_decided(limit - count):
        samples = vote.wave(count, limit - count)
        for answer in rng.choices("abc", weights, k=samples):
            vote.add(answer)
        count += samples
    return count


def table() -> str:
    rng = Random(0)
    return pages.table(
        ["share of the most frequent answer", *(f"`--samples {limit}`" for limit in LIMITS)],
        ([f"{share:.0%}", *(f"{mean(share, limit, rng):.0f}" for limit in LIMITS)]
         for share in SHARES))


def mean(share: float, limit: int, rng: Random) -> float:
    return sum(drawn(share, limit, rng) for _ in range(VOTES)) / VOTES


if __name__ == "__main__":
    pages.fill(ROOT / "docs" / "guides" / "cost.md", {"early-stopping": table()})
