"""Makes the tables of README.md and docs/guides/scale.md, and the figure of memory.

usage: python benchmarks/scale/table.py
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

ROOT = HERE.parents[1]
PAGES = [HERE / "README.md", ROOT / "docs" / "guides" / "scale.md"]
RESULTS = HERE / "results.json"
MORE_CORES = HERE / "results-16-cores.json"  # a machine where Ray has cores of its own
Results = dict[str, Any]
Run = dict[str, Any]


def write_all() -> None:
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    draw_memory(read(RESULTS))


def with_tables(text: str) -> str:
    """A page with its tables made again from the results."""
    here, there = read(RESULTS), read(MORE_CORES)
    tables = {"runs": runs_table(here), "bars": bars_table(here),
              "machine": machine_line(here), "runs-there": runs_table(there),
              "machine-there": machine_line(there), "costs": costs_table(here)}
    return pages.filled(text, tables)


def read(path: Path) -> Results:
    found: Results = json.loads(path.read_text(encoding="utf-8"))
    return found


def run_of(results: Results, engine: str, workers: int, few: bool = False) -> Run:
    """The median of all turns."""
    found = [run for run in results["runs"] if (run["engine"], run["workers"]) == (engine, workers)
             and (run["segments"] < results["segments"]) == few]
    return sorted(found, key=lambda run: run["seconds"])[len(found) // 2]


def medians(results: Results) -> list[Run]:
    kinds = dict.fromkeys((run["engine"], run["workers"], run["segments"] < results["segments"])
                          for run in results["runs"])
    return [run_of(results, *kind) for kind in kinds]


def runs_table(results: Results) -> str:
    return pages.table(
        ["engine", "workers", "segments", "s", "of these to start", "segments/s", "workers busy",
         "driver's peak, MB"],
        ([run["engine"], run["workers"], f"{run['segments']:,}", f"{run['command_seconds']:.1f}",
          f"{run['command_seconds'] - run['seconds']:.1f}",
          f"{run['segments'] / run['seconds']:.1f}", f"{run['utilisation']:.0%}",
          f"{run['driver_peak_bytes'] / 1e6:.0f}"] for run in medians(results)))


def bars_table(results: Results) -> str:
    return pages.table(["", "target", "measured"], [
        ["efficiency of 2 workers against 1, local", "at least 85%", _efficiency(results, "local")],
        ["efficiency of 2 workers against 1, ray", "at least 85%", _efficiency(results, "ray")],
        ["ray's time against local's, 1 worker", "at most +15%", _overhead(results, 1)],
        ["ray's time against local's, 2 workers", "at most +15%", _overhead(results, 2)],
        ["the same for each further segment, 1 worker", "", _marginal_overhead(results, 1)],
        ["the same for each further segment, 2 workers", "", _marginal_overhead(results, 2)],
        ["driver's peak memory, all segments against a tenth, local", "flat",
         _growth(results, "local")],
        ["driver's peak memory, all segments against a tenth, ray", "flat",
         _growth(results, "ray")]])


def _efficiency(results: Results, engine: str) -> str:
    one, two = (run_of(results, engine, workers)["seconds"] for workers in (1, 2))
    return f"{one / two / 2:.0%}"


def _overhead(results: Results, workers: int) -> str:
    local, ray = (run_of(results, engine, workers)["seconds"] for engine in ("local", "ray"))
    return f"{ray / local - 1:+.0%}"


def _marginal_overhead(results: Results, workers: int) -> str:
    """Of all segments but the first tenth: without what starts once."""
    local, ray = (run_of(results, engine, workers)["seconds"]
                  - run_of(results, engine, workers, few=True)["seconds"]
                  for engine in ("local", "ray"))
    return f"{ray / local - 1:+.0%}"


def _growth(results: Results, engine: str) -> str:
    few, many = (run_of(results, engine, 2, f)["driver_peak_bytes"] for f in (True, False))
    return f"{many / few:.2f}x"


def costs(results: Results) -> dict[str, float]:
    """Seconds of each step for one segment, and bytes of it; and on a GPU what others measured."""
    run = run_of(results, "local", 1)
    comet = read(ROOT / "benchmarks/comet/cuda.json")
    sampling = read(ROOT / "benchmarks/sampling/cuda.json")["translation"]
    sampled = median(turn["wall"] for turn in sampling["times"]["minrisk"])
    return {**{name: seconds / run["segments"] for name, seconds in run["stages"].items()},
            "bytes": results["bytes"] / results["segments"],
            "comet": comet["ours"]["exact"]["median_s"],
            "sample": sampled / sampling["segments"]["minrisk"]}


def costs_table(results: Results) -> str:
    cost = costs(results)
    return pages.table(["for one segment of 1,024 samples", "", "on"], [
        ["read and decompress", f"{1000 * cost['read']:.2f} ms", "one core"],
        ["parse and decode, exact chrF", f"{1000 * cost['decode']:.1f} ms", "one core"],
        ["keep the result", f"{1000 * cost['write']:.2f} ms", "one core"],
        ["sample 1,024 translations (OPUS-MT)", f"{1000 * cost['sample']:.0f} ms", "one H200"],
        ["exact COMET (random weights of COMET-22's size)", f"{1000 * cost['comet']:.0f} ms",
         "one H200"],
        ["size on its way to a worker", f"{cost['bytes'] / 1000:.0f} kB", "the network"]])


def machine_line(results: Results) -> str:
    note = "" if results["segments"] >= 2000 else "A quick run: not the numbers to judge by. "
    return (f"{note}{results['segments']:,} segments, {_turns(results)}. "
            + pages.machine_line(results["machine"], "ray", "numpy"))


def _turns(results: Results) -> str:
    kinds = Counter((run["engine"], run["workers"], run["segments"]) for run in results["runs"])
    few, many = min(kinds.values()), max(kinds.values())
    return "one turn" if many == 1 else f"medians of {few} to {many} turns"


def draw_memory(results: Results) -> None:
    from matplotlib.figure import Figure  # here, for the tables need none

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for run in medians(results):
        if run["segments"] == results["segments"]:
            seconds, memory = zip(*run["driver_memory"], strict=True)
            axes.plot(seconds, [m / 1e6 for m in memory],
                      label=f"{run['engine']}, {run['workers']} workers")
    axes.set(xlabel="seconds", ylabel="resident memory of the driver, MB", ylim=(0, None))
    axes.legend()
    figure.savefig(HERE / "memory.svg", metadata={"Date": None})


if __name__ == "__main__":
    write_all()
