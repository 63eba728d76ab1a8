"""Print the table of docs/guides/cost.md: how many samples a vote draws before it stops.

    python docs/figures/early_stopping.py

Simulated: the most frequent answer has a fixed probability, and two others share the rest.
"""

from __future__ import annotations

from random import Random

from minrisk._core.vote import Vote, wave

SHARES = (1.0, 0.9, 0.7, 0.5, 0.4)  # of the most frequent answer
LIMITS = (8, 16, 32, 64)
ERROR = 0.05  # the default of --stop-error
VOTES = 500


def drawn(share: float, limit: int, rng: Random) -> int:
    """The number of samples of one vote."""
    vote, count = Vote(ERROR), 0
    weights = [share, (1 - share) / 2, (1 - share) / 2]
    while count < limit and not vote.is_decided(limit - count):
        samples = min(wave(count), limit - count)
        for answer in rng.choices("abc", weights, k=samples):
            vote.add(answer)
        count += samples
    return count


def table() -> str:
    rng = Random(0)
    lines = ["| share of the most frequent answer | "
             + " | ".join(f"`--samples {limit}`" for limit in LIMITS) + " |",
             "|---|" + "---|" * len(LIMITS)]
    for share in SHARES:
        means = [sum(drawn(share, limit, rng) for _ in range(VOTES)) / VOTES for limit in LIMITS]
        lines.append(f"| {share:.0%} | " + " | ".join(f"{mean:.0f}" for mean in means) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
