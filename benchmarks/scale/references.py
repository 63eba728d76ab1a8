"""Does one segment with a million references take linear time and flat memory?

usage: python benchmarks/scale/references.py [--samples FILE] [--references N ...] [--workers N ...]

References are real samples of one sentence, recombined: the beginning of one with the end of
another. Every measurement is `minrisk rank` in a process of its own, from files to output. Writes
references.json and the table of references.md beside it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import minrisk

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

SPAWN = HERE.parent / "chrf" / "spawn.py"  # its peak memory is that of the command alone
SAMPLES = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
SHARD = 50_000  # references in a file
RANK = [sys.executable, "-m", "minrisk", "rank", "--quiet", "--utilities"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--references", type=int, nargs="+",
                        default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--strategy", default="aggregate")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    samples = longest_segment(options.samples)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hyps = write(folder / "hyps.txt", dict.fromkeys(samples))
        shards = list(write_shards(folder, samples, max(options.references)))
        check(hyps, shards[0], options.strategy)
        rows = [measured(hyps, shards, count, workers, options)
                for count in options.references for workers in options.workers]
    results = {"machine": machine.describe("numpy"), "samples": options.samples.name,
               "shard": SHARD, "hypotheses": len(set(samples)), "strategy": options.strategy,
               "repeats": options.repeats, "rows": rows}
    (HERE / "references.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_table(results)


def longest_segment(path: Path) -> list[str]:
    """The samples of the segment that has most characters."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        found = (json.loads(line)["samples"] for line in lines)
        return max(found, key=lambda texts: sum(map(len, texts)))


def recombined(samples: list[str], seed: int = 0) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    words = [sample.split() for sample in samples]
    while True:
        first, second = (words[i] for i in rng.integers(len(words), size=2))
        cut = rng.integers(min(len(first), len(second)) + 1)
        yield " ".join(first[:cut] + second[cut:])


def write_shards(folder: Path, samples: list[str], count: int) -> Iterator[Path]:
    texts = recombined(samples)
    for start in range(0, count, SHARD):
        size = min(SHARD, count - start)
        yield write(folder / f"{start // SHARD:05}.txt", islice(texts, size))


def write(path: Path, texts: Any) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def check(hyps: Path, shard: Path, strategy: str) -> None:
    """One process with everything in memory gives the same, before anything is timed."""
    done = subprocess.run([*RANK, str(hyps), str(shard), "--strategy", strategy], check=True,
                          capture_output=True, text=True)
    texts = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in (hyps, shard)]
    expected = minrisk.decode(*texts, strategy=strategy)
    np.testing.assert_allclose(json.loads(done.stdout)["utilities"], expected.utility, rtol=1e-9)


def measured(hyps: Path, shards: list[Path], count: int, workers: int,
             options: argparse.Namespace) -> dict[str, float]:
    files = [str(path) for path in shards[:-(-count // SHARD)]]
    if count < SHARD:
        lines = shards[0].read_text(encoding="utf-8").split("\n")[:count]
        files = [str(write(hyps.parent / f"first-{count}.txt", lines))]
    command = [*RANK, str(hyps), *files, "--strategy", options.strategy, "--workers", str(workers)]
    runs = [spawned(command) for _ in range(options.repeats)]
    row = {"references": count, "workers": workers,
           "seconds": min(run["seconds"] for run in runs),
           "processor_seconds": min(run["processor_seconds"] for run in runs),
           "peak_mb": max(run["peak_bytes"] for run in runs) / 1e6}
    print(row, file=sys.stderr)
    return row


def spawned(command: list[str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, str(SPAWN), *command], check=True,
                          stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    if found["status"] != 0:
        raise SystemExit(f"{' '.join(command)} ended with {found['status']}")
    return found


def write_table(results: dict[str, Any]) -> None:
    head = ["references", "workers", "s", "processor s", "µs a reference", "peak MB"]
    rows = [[f"{row['references']:,}", row["workers"], f"{row['seconds']:.2f}",
             f"{row['processor_seconds']:.2f}",
             f"{1e6 * row['processor_seconds'] / row['references']:.1f}", f"{row['peak_mb']:.0f}"]
            for row in results["rows"]]
    conditions = (f"Strategy {results['strategy']}, {results['hypotheses']} hypotheses, shards of "
                  f"{results['shard']:,}, best of {results['repeats']} runs. "
                  f"{pages.machine_line(results['machine'], 'numpy')}")
    pages.fill(HERE / "references.md",
               {"references": f"{pages.table(head, rows)}\n\n{conditions}"})


if __name__ == "__main__":
    main()
