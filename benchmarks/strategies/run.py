"""Does a strategy that evaluates a share of the pairs take less time than all of them?

usage: python benchmarks/strategies/run.py [--segments N] [--repeats N] [--metric chrf|comet ...]

Writes results.json and the tables of README.md beside it. COMET is a small random model, made anew.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import minrisk
from minrisk._core.registry import METRICS

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

SAMPLES = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
SIZES = {"chrf": 1024, "comet": 256}  # samples a segment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--metric", nargs="+", default=list(SIZES), choices=SIZES)
    options = parser.parse_args()
    path = HERE / "results.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.metric:
            metric = minrisk.ChrF() if name == "chrf" else comet(Path(folder) / "model")
            results[name] = compare(metric, SIZES[name], options.segments, options.repeats)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name in options.metric:
        pages.fill(HERE / "README.md", {name: table(results[name])})


def comet(folder: Path) -> Any:
    sys.path.insert(0, str(HERE.parent / "comet"))
    import models

    models.write(models.SMALL, folder)
    return METRICS.make("comet", model=str(folder))


def compare(metric: Any, samples: int, count: int, repeats: int) -> dict[str, Any]:
    tried = strategies(metric, samples)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in tried}
    for segment in segments(count, samples, metric.name == "comet"):
        # COMET's features are found again: they would hide what pairs cost
        given = minrisk.Batch([segment]) if metric.name == "comet" else [segment]
        [exact] = tried["standard"].rank(given)
        for name, strategy in tried.items():  # in turns, so that noise meets all alike
            rows[name].append(measured(strategy, given, exact, repeats))
    return {"machine": machine.describe("numpy"), "segments": count, "samples": samples,
            "repeats": repeats, "rows": {name: summary(found) for name, found in rows.items()}}


def strategies(metric: Any, samples: int) -> dict[str, Any]:
    eighth = samples // 8
    found = {
        "standard": minrisk.Standard(metric),
        f"n-by-s, {eighth} references": minrisk.NByS(metric, eighth),
        "aggregate": minrisk.Aggregate(metric),
        f"aggregate, {eighth} groups": minrisk.Aggregate(metric, eighth),
        "aggregate-to-fine, keep 20": minrisk.AggregateToFine(metric),
        "prune": minrisk.Prune(metric),
        "prune, alpha 0.999": minrisk.Prune(metric, alpha=0.999, start=32),
        "adaptive, 1/8 of the pairs": minrisk.Adaptive(metric),
        "adaptive, 1/32 of the pairs": minrisk.Adaptive(metric, 1 / 32),
        "low-rank, 1/8 of the pairs": minrisk.LowRank(metric),
    }
    if metric.name == "comet":
        return found | {
            f"centroid, {eighth} clusters": minrisk.Centroid(metric, eighth),
            "control-variate, 1/32 of the pairs": minrisk.ControlVariate(metric)}
    return found | {"diverse, 4": minrisk.Diverse(metric), "medoids, 4": minrisk.Medoids(metric),
                    "standard with confidence": minrisk.Confident(minrisk.Standard(metric))}


def segments(count: int, samples: int, as_words: bool) -> Iterator[minrisk.Segment]:
    with lzma.open(SAMPLES, "rt", encoding="utf-8") as lines:
        for index, line in enumerate(islice(lines, count)):
            record = json.loads(line)
            texts, source = record["samples"][:samples], record["source"]
            if as_words:
                texts, source = [known(text) for text in texts], known(source)
            yield minrisk.Segment(texts, source=source, position=index)


def known(text: str) -> str:
    """In words that the random model has, the same for the same."""
    return " ".join(f"w{zlib.crc32(word.encode()) % 20000}" for word in text.split())


def measured(strategy: Any, given: Sequence[minrisk.Segment], exact: minrisk.Ranking,
             repeats: int) -> dict[str, float]:
    wall, processor = [], []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        [ranking] = strategy.rank(given)
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
    texts = given[0].hypotheses
    return {
        "top1": float(texts[ranking.best] == texts[exact.best]),
        "loss": float(exact.utility[exact.best] - exact.utility[ranking.best]),
        "pairs": ranking.pairs / exact.pairs,
        "wall_ms": 1000 * min(wall),
        "processor_ms": 1000 * min(processor),
    }


def summary(found: list[dict[str, float]]) -> dict[str, float]:
    mean = {key: fmean(row[key] for row in found) for key in ("top1", "loss", "pairs")}
    return mean | {key: median(row[key] for row in found) for key in ("wall_ms", "processor_ms")}


def table(results: dict[str, Any]) -> str:
    rows = results["rows"]
    whole = rows["standard"]
    cells = [[label, f"{row['pairs']:.1%}", f"{row['top1']:.1%}", f"{row['loss']:.3f}",
              f"{row['wall_ms']:.1f}", f"{row['processor_ms']:.1f}",
              f"{row['processor_ms'] / whole['processor_ms']:.2f}"] for label, row in rows.items()]
    head = ["strategy", "pairs", "top-1", "utility lost", "ms", "processor ms", "of standard"]
    return (f"{pages.table(head, cells)}\n\n{results['segments']} segments of "
            f"{results['samples']:,} samples, best of {results['repeats']} runs each, medians "
            f"over segments. {pages.machine_line(results['machine'], 'numpy')}")


if __name__ == "__main__":
    main()
