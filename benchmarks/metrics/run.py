"""What does each metric cost, pairwise and aggregated? Measures, and writes results.json.

usage: python benchmarks/metrics/run.py [--mbrs PYTHON] [--limit SECONDS] [--quick] [--output FILE]

mbrs needs older packages than minrisk allows: give the interpreter of an environment that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import table

HERE = Path(__file__).parent
SAMPLES = HERE.resolve().parents[2] / "shared" / "data" / "fastchrf-samples.txt"
SIZES = (64, 256, 1024)
PROBE = 16  # texts that tell whether more would take too long
APART = 1e-3  # of scores up to 100, where a library rounds to single precision


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Worker:
    """The other end of worker.py."""

    def __init__(self, library: str, python: str) -> None:
        self.library = library
        self._process = subprocess.Popen([python, str(HERE / "worker.py"), library],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         encoding="utf-8")
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
            limit: float) -> list[dict[str, Any]]:
    """A row per metric, work, size and library; answers of two libraries must agree."""
    rows = []
    for metric in workers[0].names:
        for work in ("pairwise", "aggregate"):
            known: dict[int, list[float]] = {}
            for worker in (w for w in workers if metric in w.names):
                for row, utility in series(worker, metric, work, texts, sizes, limit):
                    rows.append(row | {"apart": compare(known, row["samples"], utility, row)})
    return rows


def series(worker: Worker, metric: str, work: str, texts: list[str], sizes: tuple[int, ...],
           limit: float) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Growing numbers of samples, up to where a call would take too long."""
    expected = 0.0
    for size in (PROBE, *sizes):
        if expected > limit:
            say(f"  {worker.library} {metric} {work} {size}: about {expected:.0f} s, left out")
            return
        found = worker.ask(do="run", metric=metric, work=work, texts=texts[:size])
        if "cannot" in found:
            return
        median = statistics.median(found["seconds"])
        expected = median * (4 if work == "aggregate" else 16)
        if size == PROBE:
            continue
        say(f"  {worker.library} {metric} {work} {size}: {median:.4f} s")
        yield {"metric": metric, "work": work, "samples": size, "library": worker.library,
               "median": float(f"{median:.4g}"), "min": float(f"{min(found['seconds']):.4g}"),
               "calls": len(found["seconds"])}, found["utility"]


def compare(known: dict[int, list[float]], size: int, utility: list[float],
            row: dict[str, Any]) -> float | None:
    """How far two libraries are apart; an end if that is too far."""
    if size not in known:
        known[size] = utility
        return None
    apart = max(abs(a - b) for a, b in zip(known[size], utility, strict=True))
    if not apart <= APART:
        raise SystemExit(f"{row['metric']} {row['work']}: utilities differ by up to {apart:.3g}")
    return float(f"{apart:.2g}")


def machine(workers: list[Worker]) -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.processor(), "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1), "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            **{worker.library: worker.version for worker in workers}}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbrs", metavar="PYTHON", help="of an environment with mbrs")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS",
                        help="leave out calls that are expected to take longer (300)")
    parser.add_argument("--quick", action="store_true", help="64 samples only")
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def main() -> int:
    given = options()
    if not SAMPLES.is_file():
        say(f"nothing to measure: the research data are not here ({SAMPLES.name} is missing)")
        return 0
    texts = SAMPLES.read_text(encoding="utf-8").split("\n")[:max(SIZES)]
    workers = [Worker("minrisk", sys.executable)]
    workers += [Worker("mbrs", given.mbrs)] if given.mbrs else []
    about = machine(workers)
    rows = measure(workers, texts, SIZES[:1] if given.quick else SIZES, given.limit)
    results = {"machine": about, "limit": given.limit, "rows": rows}
    given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if given.output == HERE / "results.json":
        table.update(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
