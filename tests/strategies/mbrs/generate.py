"""Write what mbrs decides on our problems (see README.md).

Run in an environment with mbrs 0.1.8 and fastchrf; nothing is downloaded. Everything is seeded, so
a second run with the same versions writes the same file. The problems are those of the tests.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from mbrs.decoders import (
    DecoderAggregateMBR,
    DecoderMBR,
    DecoderProbabilisticMBR,
    DecoderPruningMBR,
)
from mbrs.metrics import MetricChrF, Metrics
from mbrs.modules.kmeans import Kmeans
from mbrs.selectors import SelectorDiverse

from mbrs_problems import CLUSTERS, COUNT, SAMPLES, logprobs, points, repeated, samples

SEEDS = 5


def main() -> None:
    torch.set_num_threads(1)
    metric = MetricChrF(MetricChrF.Config(fastchrf=True))
    found = {
        "versions": {name: version(name) for name in ("mbrs", "fastchrf", "torch")},
        "standard": [utilities(DecoderMBR, metric, p) for p in range(COUNT)],
        "weighted": [utilities(DecoderMBR, metric, p, lprobs=True) for p in range(COUNT)],
        "model-based": [model_based(metric, p) for p in range(COUNT)],
        "aggregate": [utilities(DecoderAggregateMBR, metric, p) for p in range(COUNT)],
        "prune": [[choice(DecoderPruningMBR, metric, p, seed=seed, alpha=0.9,
                          sampling_scheduler=[8, 16, 32, 48]) for seed in range(SEEDS)]
                  for p in range(COUNT)],
        "low-rank": [[choice(DecoderProbabilisticMBR, metric, p, seed=seed, reduction_factor=4.0)
                      for seed in range(SEEDS)] for p in range(COUNT)],
        "diverse": [diverse(metric, p) for p in range(COUNT)],
        "inertia": [[inertia(p, seed) for seed in range(SEEDS)] for p in range(COUNT)],
    }
    path = Path(__file__).with_name("golden.json")
    path.write_text(json.dumps(found) + "\n", encoding="utf-8")


def utilities(decoder: Any, metric: MetricChrF, problem: int, lprobs: bool = False) -> list[float]:
    texts = samples(problem)
    weights = torch.tensor(logprobs(problem)) if lprobs else None
    output = decoder(decoder.Config(), metric).decode(texts, texts, nbest=SAMPLES,
                                                      reference_lprobs=weights)
    return [round(score, 5) for _, score in sorted(zip(output.idx, output.score, strict=True))]


def model_based(metric: MetricChrF, problem: int) -> list[float]:
    """Of repeated samples, whose references mbrs-decode deduplicates as is done here."""
    texts, values = repeated(problem)
    references, lprobs = zip(*dict.fromkeys(zip(texts, values, strict=True)), strict=True)
    output = DecoderMBR(DecoderMBR.Config(), metric).decode(
        texts, list(references), nbest=SAMPLES, reference_lprobs=torch.tensor(lprobs))
    return [round(score, 5) for _, score in sorted(zip(output.idx, output.score, strict=True))]


def choice(decoder: Any, metric: MetricChrF, problem: int, **options: Any) -> int:
    texts = samples(problem)
    return int(decoder(decoder.Config(**options), metric).decode(texts, texts).idx[0])


def diverse(metric: MetricChrF, problem: int) -> list[int]:
    """Two, chosen greedily: for more, mbrs weighs likeness anew at every step."""
    texts = samples(problem)
    selector = SelectorDiverse(SelectorDiverse.Config(
        diversity_metric=Metrics.chrf, diversity_metric_config=metric.cfg, diversity_lambda=0.5,
        local_search_iterations=0))
    decoder = DecoderMBR(DecoderMBR.Config(), metric, selector)
    return [int(i) for i in decoder.decode(texts, texts, nbest=2).idx]


def inertia(problem: int, seed: int) -> float:
    """The mean squared distance to the centroids."""
    given = torch.tensor(points(problem))
    centroids, labels = Kmeans(Kmeans.Config(CLUSTERS, 10, seed=seed)).train(given)
    return round(((given - centroids[labels]) ** 2).sum(1).mean().item(), 5)


if __name__ == "__main__":
    main()
