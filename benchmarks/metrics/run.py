"""What does each metric cost, pairwise and aggregated? Measures, and writes results.json.

usage: python benchmarks/metrics/run.py [--mbrs PYTHON] [--originals PYTHON] [--budget SECONDS]
                                        [--quick] [--output FILE]

mbrs needs older packages than minrisk allows: give the interpreter of an environment that has it.
Give that of another one with the packages that define the metrics, which are called for every pair.
Models are small and random, written to a temporary folder, and the same files for both.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import models
import table

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine

SAMPLES = machine.DATA / "fastchrf-samples.txt"
SIZES = (64, 256, 1024)
PROBES = (8, 16)  # texts that tell whether more would take too long
APART = 1e-3  # of scores up to 100, where a library rounds to single precision
OWN_WAY = ("bleu", "aggregate")  # ours counts less than one match as no less than none at all


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Worker:
    """The other end of worker.py."""

    def __init__(self, library: str, python: str, folder: str) -> None:
        self.library = library
        self._process = subprocess.Popen(
            [python, str(HERE.resolve() / "worker.py"), library], cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        found = self.ask(do="names")
        self.names: list[str] = found["names"]
        self.version: str = found["version"]

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.library} ended without an answer")
        result: dict[str, Any] = json.loads(answer)
        return result


def measure(workers: list[Worker], texts: list[str], sizes: tuple[int, ...],
            budget: float) -> list[dict[str, Any]]:
    """A row per metric, work, size and library; answers of two libraries must agree."""
    rows = []
    for metric in workers[0].names:
        for work in ("pairwise", "aggregate"):
            known: dict[int, list[float]] = {}
            for worker in (w for w in workers if metric in w.names):
                for row, utility in series(worker, metric, work, texts, sizes, budget):
                    apart = compare(known, row["samples"], utility, row) if utility else None
                    rows.append(row | {"apart": apart})
    return rows


def series(worker: Worker, metric: str, work: str, texts: list[str], sizes: tuple[int, ...],
           budget: float) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Growing numbers of samples; a call that is expected to take too long is not made."""
    times: dict[int, float] = {}
    for size in (*PROBES, *sizes):
        expected = expect(times, size)
        row = {"metric": metric, "work": work, "samples": size, "library": worker.library}
        if expected > budget:
            say(f"  {worker.library} {metric} {work} {size}: over budget, about {expected:.0f} s")
            yield row | {"expected": float(f"{expected:.2g}")}, []
            continue
        found = worker.ask(do="run", metric=metric, work=work, texts=texts[:size])
        if "cannot" in found:
            return
        times[size] = statistics.median(found["seconds"])
        if size in PROBES:
            continue
        say(f"  {worker.library} {metric} {work} {size}: {times[size]:.4f} s")
        yield row | {"median": float(f"{times[size]:.4g}"),
                     "min": float(f"{min(found['seconds']):.4g}"),
                     "calls": len(found["seconds"])}, found["utility"]


def expect(times: dict[int, float], size: int) -> float:
    """Seconds, growing between linearly and with the square as it did before."""
    if len(times) < len(PROBES):
        return 0.0
    (smaller, before), (larger, last) = list(times.items())[-2:]
    power = math.log(last / before) / math.log(larger / smaller)
    return last * (size / larger) ** min(2.0, max(1.0, power))


def compare(known: dict[int, list[float]], size: int, utility: list[float],
            row: dict[str, Any]) -> float | None:
    """How far two libraries are apart; an end if that is too far."""
    if size not in known:
        known[size] = utility
        return None
    apart = max(abs(a - b) for a, b in zip(known[size], utility, strict=True))
    if not apart <= APART and (row["metric"], row["work"]) != OWN_WAY:
        raise SystemExit(f"{row['metric']} {row['work']}: utilities differ by up to {apart:.3g}")
    return float(f"{apart:.2g}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbrs", metavar="PYTHON", help="of an environment with mbrs")
    parser.add_argument("--originals", metavar="PYTHON",
                        help="of an environment with sacrebleu, rouge-score, bert-score and others")
    parser.add_argument("--budget", type=float, default=15.0, metavar="SECONDS",
                        help="of a cell; a call that is expected to take longer is not made (15)")
    parser.add_argument("--quick", action="store_true", help="64 samples only")
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def main() -> int:
    given = options()
    if not SAMPLES.is_file():
        say(f"nothing to measure: the research data are not here ({SAMPLES.name} is missing)")
        return 0
    texts = SAMPLES.read_text(encoding="utf-8").split("\n")[:max(SIZES)]
    sizes = SIZES[:1] if given.quick else SIZES
    with tempfile.TemporaryDirectory() as folder:
        models.write_all(Path(folder), texts)
        workers = [Worker("minrisk", sys.executable, folder)]
        for peer, python in (("mbrs", given.mbrs), ("originals", given.originals)):
            workers += [Worker(peer, python, folder)] if python else []
        results = {"machine": machine.describe() | {own.library: own.version for own in workers},
                   "models": models.SHAPE, "budget": given.budget,
                   "rows": measure(workers, texts, sizes, given.budget)}
    given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if given.output == HERE / "results.json":
        table.update(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
