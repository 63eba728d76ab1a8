"""Problems that mbrs and we are both given, the same wherever they are made."""

from __future__ import annotations

import math
import random

TEXT = ("the old bridge over the river was closed all winter because its stones had come loose "
        "and nobody could say when it would open again for the people of the town")
WORDS = TEXT.split()
COUNT, SAMPLES, POINTS, CLUSTERS = 40, 48, 120, 6


def samples(problem: int) -> list[str]:
    """Like a model's: one sentence, in which words are left out, doubled or exchanged."""
    rng = random.Random(problem)
    start = rng.randrange(len(WORDS) - 12)
    return [_changed(WORDS[start : start + 12], rng) for _ in range(SAMPLES)]


def logprobs(problem: int) -> list[float]:
    rng = random.Random(1000 + problem)
    return [4 * math.log(rng.random()) for _ in range(SAMPLES)]


def repeated(problem: int) -> tuple[list[str], list[float]]:
    """Samples that come several times, with the log-probability that a model gives each text."""
    rng = random.Random(3000 + problem)
    texts, values = samples(problem)[:12], logprobs(problem)
    logprob = dict(zip(texts, values, strict=False))
    drawn = [rng.choice(texts) for _ in range(SAMPLES)]
    return drawn, [logprob[text] for text in drawn]


def points(problem: int) -> list[list[float]]:
    """Of clusters that overlap."""
    rng = random.Random(2000 + problem)
    centres = [[rng.uniform(-3, 3) for _ in range(4)] for _ in range(CLUSTERS)]
    return [[rng.gauss(x, 1.0) for x in rng.choice(centres)] for _ in range(POINTS)]


def _changed(words: list[str], rng: random.Random) -> str:
    made: list[str] = []
    for word in words:
        chance = rng.random()
        if chance > 0.15:
            made.append(word)
        if chance > 0.9:
            made.append(rng.choice(WORDS))
    return " ".join(made)
