"""Makes the tables of README.md and docs/scale.md from results.json, and the figure of memory.

usage: python benchmarks/scale/table.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGES = [HERE / "README.md", ROOT / "docs" / "scale.md"]
PLACE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
NODES, CORES, GPUS = 16, 32, 8  # of the cluster that the page plans, GPUs in all
Results = dict[str, Any]


def write_all(results: Results) -> None:
    tables = {"runs": runs_table, "bars": bars_table, "costs": costs_table, "plan": plan_table,
              "machine": machine_line}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        text = PLACE.sub(lambda m: f"{m[1]}{tables[m[2]](results)}\n{m[3]}", text)
        page.write_text(text, encoding="utf-8")
    draw_memory(results)


def markdown(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    return "\n".join("| " + " | ".join(map(str, line)) + " |"
                     for line in [head, ["---"] * len(head), *rows])


def run_of(results: Results, engine: str, workers: int, few: bool = False) -> dict[str, Any]:
    found = [run for run in results["runs"] if (run["engine"], run["workers"]) == (engine, workers)]
    chosen: dict[str, Any] = sorted(found, key=lambda run: run["segments"])[0 if few else -1]
    return chosen


def runs_table(results: Results) -> str:
    return markdown(
        ["engine", "workers", "segments", "s", "of these to start", "segments/s", "workers busy",
         "driver's peak, MB"],
        ([run["engine"], run["workers"], f"{run['segments']:,}", f"{run['command_seconds']:.1f}",
          f"{run['command_seconds'] - run['seconds']:.1f}",
          f"{run['segments'] / run['seconds']:.1f}", f"{run['utilisation']:.0%}",
          f"{run['driver_peak_bytes'] / 1e6:.0f}"] for run in results["runs"]))


def bars_table(results: Results) -> str:
    rows = []
    for engine in ("local", "ray"):
        one, two = (run_of(results, engine, workers)["seconds"] for workers in (1, 2))
        few, many = (run_of(results, engine, 2, f)["driver_peak_bytes"] for f in (True, False))
        rows += [[f"efficiency of 2 workers against 1, {engine}", "at least 85%",
                  f"{one / two / 2:.0%}"],
                 [f"driver's peak memory, {results['segments']:,} segments against a tenth, "
                  f"{engine}", "flat", f"{many / few:.2f}x"]]
    for workers in (1, 2):
        local, ray = (run_of(results, engine, workers) for engine in ("local", "ray"))
        rows += [[f"Ray's time against the local engine's, {workers} workers", "at most +15%",
                  f"{ray['seconds'] / local['seconds'] - 1:+.0%}"],
                 ["the same with starting Ray", "",
                  f"{ray['command_seconds'] / local['command_seconds'] - 1:+.0%}"]]
    return markdown(["", "bar", "measured"], rows)


def costs(results: Results) -> dict[str, float]:
    """Seconds of each step for one segment, and bytes of it; and on a GPU what others measured."""
    run = run_of(results, "local", 1)
    comet = json.loads((ROOT / "benchmarks/comet/cuda.json").read_text())
    sampling = json.loads((ROOT / "benchmarks/sampling/cuda.json").read_text())["translation"]
    drawn = min(time["wall"] for time in sampling["times"]["minrisk"])
    return {**{name: seconds / run["segments"] for name, seconds in run["stages"].items()},
            "bytes": results["bytes"] / results["segments"],
            "comet": comet["ours"]["exact"]["median_s"],
            "sample": drawn / sampling["segments"]["minrisk"]}


def costs_table(results: Results) -> str:
    cost = costs(results)
    return markdown(["for one segment of 1,024 samples", "", "on"], [
        ["read and decompress", f"{1000 * cost['read']:.2f} ms", "one core"],
        ["parse and decode, exact chrF", f"{1000 * cost['decode']:.1f} ms", "one core"],
        ["keep the result", f"{1000 * cost['write']:.2f} ms", "one core"],
        ["sample 1,024 translations (OPUS-MT)", f"{1000 * cost['sample']:.0f} ms", "one H200"],
        ["exact COMET (COMET-22's shape)", f"{1000 * cost['comet']:.0f} ms", "one H200"],
        ["size on its way to a worker", f"{cost['bytes'] / 1000:.0f} kB", "the network"]])


def plan_table(results: Results) -> str:
    cost, cores = costs(results), NODES * CORES
    per_hour = {
        f"decode by chrF, {cores} cores": cores / cost["decode"],
        "the same, as far as one local driver can read": 1 / (cost["read"] + cost["write"]),
        f"the same, as far as the {NODES} nodes of a Ray cluster can read": NODES / cost["read"],
        "the same, as far as the driver can keep results": 1 / cost["write"],
        "the same, as far as 10 Gbit/s to one node carry": 10e9 / 8 / cost["bytes"],
        f"sample, {GPUS} H200": GPUS / cost["sample"],
        f"exact COMET, {GPUS} H200": GPUS / cost["comet"],
        f"both, one after the other, {GPUS} H200": GPUS / (cost["sample"] + cost["comet"]),
    }
    return markdown(["limit", "segments an hour", "2,000,000 segments take"], (
        [name, f"{3600 * rate:,.0f}", f"{2e6 / rate / 3600:.1f} h"]
        for name, rate in per_hour.items()))


def machine_line(results: Results) -> str:
    m = results["machine"]
    note = "" if results["segments"] >= 2000 else "A quick run: not the numbers to judge by. "
    return (f"{note}{results['segments']:,} segments. {m['cpu']}, {m['cores']} cores, load "
            f"{m['load']:.1f} at the end; Python {m['python']}, Ray {m['ray']}, "
            f"NumPy {m['numpy']}, minrisk {m['minrisk']}.")


def draw_memory(results: Results) -> None:
    from matplotlib.figure import Figure  # here, for the tables need none

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for run in results["runs"]:
        if run["segments"] == results["segments"]:
            seconds, memory = zip(*run["driver_memory"], strict=True)
            axes.plot(seconds, [m / 1e6 for m in memory],
                      label=f"{run['engine']}, {run['workers']} workers")
    axes.set(xlabel="seconds", ylabel="resident memory of the driver, MB", ylim=(0, None))
    axes.legend()
    figure.savefig(HERE / "memory.svg")


if __name__ == "__main__":
    write_all(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
