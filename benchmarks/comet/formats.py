"""What do bf16 and int8 save on a CPU, and what do they cost? Writes JSON.

usage: python benchmarks/comet/formats.py [--output FILE]

Exact COMET MBR in each number format, in turns, in one thread; seconds are those that the thread
computed for, which others on the machine disturb less than the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import models
import torch
from run import agreement, exact, machine

from minrisk.metrics.comet import Comet

FORMATS = ("fp32", "bf16", "int8")
# a small model, and some layers of a large one, so that nobody waits for minutes
SHAPES = {models.SMALL: 64,
          replace(models.COMET_22, name="4 layers as wide as COMET-22's", layers=4): 32}


def seconds(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def measure(shape: models.Shape, samples: int, turns: int, folder: Path) -> dict[str, Any]:
    models.write(shape, folder)
    metrics = {name: Comet(model=str(folder), device="cpu", dtype=name) for name in FORMATS}
    ids = metrics["fp32"].tokenize(models.texts(samples))
    source = metrics["fp32"].tokenize(models.texts(1, seed=9))[0]
    utilities = {name: exact(metric, ids, source) for name, metric in metrics.items()}
    times: dict[str, list[float]] = {name: [] for name in FORMATS}
    for _ in range(turns):
        for name, metric in metrics.items():
            times[name].append(seconds(lambda metric=metric: exact(metric, ids, source)))
    medians = {name: statistics.median(own) for name, own in times.items()}
    return {"shape": shape.name, "samples": samples,
            "formats": {name: {"seconds": times[name],
                               "times as fast as fp32": medians["fp32"] / medians[name],
                               **agreement(utilities[name], utilities["fp32"])}
                        for name in FORMATS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for shape, samples in SHAPES.items():
        with TemporaryDirectory() as folder:
            results.append(measure(shape, samples, args.turns, Path(folder) / "model"))
    found = machine.describe("torch", "transformers") | {"threads": 1, "results": results}
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
