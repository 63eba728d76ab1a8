"""Does a strategy that evaluates a share of the pairs take less time than all of them?

usage: python benchmarks/strategies/run.py [--segments N] [--repeats N]

Writes results.json and the table of README.md beside it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import platform
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import minrisk

HERE = Path(__file__).parent
SAMPLES = HERE.parents[2] / "shared" / "data" / "samples" / "ntrex-en-fr.jsonl.xz"
CHRF = minrisk.ChrF()
STRATEGIES = {
    "standard": minrisk.Standard(CHRF),
    "n-by-s, 128 references": minrisk.NByS(CHRF, 128),
    "aggregate": minrisk.Aggregate(CHRF),
    "aggregate, 128 groups": minrisk.Aggregate(CHRF, 128),
    "aggregate-to-fine, keep 20": minrisk.AggregateToFine(CHRF),
    "prune": minrisk.Prune(CHRF),
    "prune, alpha 0.999": minrisk.Prune(CHRF, alpha=0.999, start=32),
    "adaptive, 1/8 of the pairs": minrisk.Adaptive(CHRF),
    "adaptive, 1/32 of the pairs": minrisk.Adaptive(CHRF, 1 / 32),
    "low-rank, 1/8 of the pairs": minrisk.LowRank(CHRF),
    "diverse, 4": minrisk.Diverse(CHRF),
    "medoids, 4": minrisk.Medoids(CHRF),
    "standard with confidence": minrisk.Confident(minrisk.Standard(CHRF)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in STRATEGIES}
    for segment in segments(options.segments):
        exact = STRATEGIES["standard"].rank([segment])[0]
        for name, strategy in STRATEGIES.items():  # in turns, so that noise meets all alike
            rows[name].append(measured(strategy, segment, exact, options.repeats))
    results = {"machine": machine(), "segments": options.segments, "repeats": options.repeats,
               "rows": {name: summary(found) for name, found in rows.items()}}
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_table(results)


def segments(count: int) -> Iterator[minrisk.Segment]:
    with lzma.open(SAMPLES, "rt", encoding="utf-8") as lines:
        for index, line in enumerate(islice(lines, count)):
            yield minrisk.Segment(json.loads(line)["samples"], index=index)


def measured(strategy: Any, segment: minrisk.Segment, exact: minrisk.Ranking,
             repeats: int) -> dict[str, float]:
    wall, processor = [], []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        [ranking] = strategy.rank([segment])
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
    texts = segment.hypotheses
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


def machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "cores": str(len(names)),
            "python": platform.python_version(), "numpy": np.__version__,
            "minrisk": minrisk.__version__}


def write_table(results: dict[str, Any]) -> None:
    rows = results["rows"]
    whole = rows["standard"]
    lines = ["| strategy | pairs | top-1 | utility lost | ms | processor ms | of standard |",
             "|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        lines.append(f"| {name} | {row['pairs']:.1%} | {row['top1']:.1%} | {row['loss']:.3f} | "
                     f"{row['wall_ms']:.1f} | {row['processor_ms']:.1f} | "
                     f"{row['processor_ms'] / whole['processor_ms']:.2f} |")
    m = results["machine"]
    lines += ["", f"{results['segments']} segments, best of {results['repeats']} runs each, "
              f"medians over segments. {m['cpu']}, {m['cores']} cores; Python {m['python']}, "
              f"NumPy {m['numpy']}, minrisk {m['minrisk']}."]
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    table = "\n".join(lines)
    text = re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", rf"\1{table}\n\2", text, flags=re.DOTALL)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
