"""How long does COMET take to choose, from file to file, and how much of it does the GPU work?

usage: python benchmarks/comet/corpus.py [--device cuda] [--segments 2000] [--samples 64] ...

A model of COMET-22's shape with random weights chooses from random texts of 25 to 64 tokens, by
`decode_corpus`, which does what `minrisk decode` does: first for a few segments, with the model's
loading, then on the clock, then under torch's profiler, which knows when the GPU was running.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import models
import torch

import minrisk

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine


def write_samples(path: Path, segments: int, samples: int, seed: int) -> None:
    texts = iter(models.texts(segments * (samples + 1), seed=seed))
    with path.open("w", encoding="utf-8") as file:
        for _ in range(segments):
            source, *own = (next(texts) for _ in range(samples + 1))
            file.write(json.dumps({"source": source, "samples": own}) + "\n")


def decode(metric: minrisk.Comet, given: Path, output: Path) -> float:
    """Seconds from file to file."""
    start = time.perf_counter()
    minrisk.decode_corpus(str(given), output=str(output), metric=metric, overwrite=True)
    return time.perf_counter() - start


def rate_of_workers(metric: minrisk.Comet, given: Path, workers: int) -> float:
    """Segments a second of processes that share the GPU, after the first result."""
    results = minrisk.decode_corpus(str(given), metric=metric, workers=workers,
                                    gpus_per_worker=1 / workers)
    next(results)
    start = time.perf_counter()
    return sum(1 for _ in results) / (time.perf_counter() - start)


def union(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of all intervals together, where they overlap counted once."""
    total, end = 0, 0
    for first, last in sorted(intervals):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def busy_seconds(profiler: torch.profiler.profile) -> float:
    events = profiler.profiler.kineto_results.events()
    on_device = [(own.start_ns(), own.end_ns()) for own in events
                 if own.device_type() == torch.autograd.DeviceType.CUDA]
    return union(on_device) / 1e9


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    model, few, many, best = (folder / name for name in ("model", "few.jsonl", "many.jsonl",
                                                          "best.jsonl"))
    models.write(models.COMET_22 if args.device == "cuda" else models.SMALL, model)
    write_samples(few, 64, args.samples, seed=1)
    write_samples(many, args.segments, args.samples, seed=2)
    metric = minrisk.Comet(model=str(model), device=args.device, tokens=args.tokens)
    loading = decode(metric, few, best)
    seconds = [decode(metric, many, best) for _ in range(args.turns)]
    found = {"segments": args.segments, "samples": args.samples, "tokens in a batch": args.tokens,
             "first 64 with loading": loading,
             "seconds": seconds, "segments a second": args.segments / min(seconds)}
    if args.device == "cuda":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            profiled = decode(metric, many, best)
        busy = busy_seconds(profiler)
        found |= {"profiled seconds": profiled, "busy seconds": busy,
                  "share of time in which the GPU works": busy / profiled}
    if args.workers:
        torch.cuda.empty_cache()
        rate = rate_of_workers(metric, many, args.workers)
        found["processes that share the GPU"] = {
            "workers": args.workers, "segments a second": rate,
            "share of time in which the GPU works": rate * found["busy seconds"] / args.segments}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--segments", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tokens", type=int, help="tokens in a batch, as the metric's option")
    parser.add_argument("--workers", type=int, help="also with this many processes on the GPU")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    found = {**machine.describe("torch", "transformers"), "machine": machine.with_gpu()} | found
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
