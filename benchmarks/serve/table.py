"""Makes the tables of README.md from results.json and quality.json.

usage: python benchmarks/serve/table.py
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

ATTEMPTS = 3  # of the server at a request to the upstream: with two retries

Results = dict[str, Any]


def machine(results: Results) -> str:
    return pages.machine_line(results["machine"], "aiohttp")


def speed(results: Results) -> str:
    one = results["one client"]
    rows = [["upstream alone", one["upstream"]["median_ms"], one["upstream"]["p99_ms"],
             *rates(results["upstream"])],
            ["**minrisk serve**", one["server"]["median_ms"], one["server"]["p99_ms"],
             *rates(results["minrisk"])]]
    peer = results.get("optillm", {}).get("results")
    if peer:
        rows.append([f"optillm {results['optillm']['version']}, best of n", peer[0]["median_ms"],
                     peer[0]["p99_ms"], *rates(peer)])
    head = ["", "median, ms", "99th, ms", "requests/s, 1 client", *(
        f"{run['clients']} clients" for run in results["minrisk"][1:])]
    return f"{machine(results)}\n\n{pages.table(head, rows)}"


def rates(runs: list[Results]) -> list[str]:
    return [f"{run['per_second']:,.0f}{errors(run)}" for run in runs]


def errors(run: Results) -> str:
    count = sum(number for status, number in run["statuses"].items() if status != "200")
    return f" ({count} errors)" if count else ""


def bars(results: Results) -> str:
    most = results["minrisk"][-1]
    memory, left, killed = results["memory"], results["cancelled"], results["killed"]
    rows = [
        ["overhead of a request, median", "8 ms",
         f"{results['one client']['overhead']['median_ms']} ms"],
        ["overhead of a request, 99th percentile", "",
         f"{results['one client']['overhead']['p99_ms']} ms"],
        ["requests per second, of the peer's", "5", peer_ratio(results)],
        [f"{most['clients']} clients", "no error, none starved",
         f"{sum(most['statuses'].values()) - most['statuses'].get('200', 0)} errors, slowest "
         f"{most['slowest_ms']:,.0f} ms, at least {most['fewest_of_a_client']} answers each"],
        [f"memory over {memory['requests']:,} requests", "flat",
         f"{memory['start_mb']}, {memory['half_mb']}, {memory['end_mb']} MB"],
        [f"{left['clients']:,} clients that left", "nothing open",
         f"{left['open_upstream_connections']} upstream connections, {left['in_flight']} requests "
         f"({left['aborted_upstream_requests']:,} had reached the upstream)"],
        [f"kill -9 after {killed['answers']:,} answers", "no whole record lost",
         f"{killed['whole_records']:,} records, {killed['lost_records']} lost"],
        ["processor time of the server per request", "",
         f"{memory['processor_ms_per_request']} ms"]]
    return pages.table(["", "wanted", "measured"], rows)


def peer_ratio(results: Results) -> str:
    peer = results.get("optillm", {"error": "not measured"})
    if "error" in peer:
        return str(peer["error"])
    ratios = [ours["per_second"] / theirs["per_second"]
              for ours, theirs in zip(results["minrisk"], peer["results"], strict=True)]
    return ", ".join(f"{ratio:.0f}" for ratio in ratios) + " times (1, 32, 256 clients)"


def quality(results: Results) -> str:
    rows = [[row["method"], row["samples"], with_interval(row["accuracy"], row),
             "" if row["samples"] == 1 else with_interval(row["gain"]["mean"], row["gain"], "+")]
            for row in results["results"]]
    head = ["method", "samples", "accuracy (95% interval)", "gain over one sample"]
    return pages.table(head, rows)


def kinds(results: Results) -> str:
    """Accuracies of one sample, and of all methods with the most samples, by kind of question."""
    found = results["by kind"]
    methods = [row["method"] if row["samples"] == 1 else f"{row['method']}, {row['samples']}"
               for row in next(iter(found.values()))]
    return pages.table(["accuracy", *methods], [
        [kind, *(with_interval(row["accuracy"], row) for row in rows)]
        for kind, rows in found.items()])


def with_interval(value: float, bounds: Results, sign: str = "") -> str:
    return " ".join([f"{value:{sign}.1%}",
                     f"({bounds['low']:{sign}.1%} to {bounds['high']:{sign}.1%})"])


def load(results: Results) -> str:
    """Intervals of a load of honest and hostile clients."""
    head = ["minute", "honest requests", "failed", "median, ms", "99th, ms", "slowest /health, ms",
            "bystander, ms", "attacks", "server, MB", "other processes", "their MB", "open files"]
    names = ["minute", "honest", "failed", "median_ms", "p99_ms", "health_ms", "bystander_ms",
             "attacks", "server_mb", "workers", "workers_mb", "open_files"]
    rows = [[f"{row[name]:,}" for name in names] for row in results["rows"]]
    clients = (f"{results['clients'] - results['hostile']} honest clients, {results['hostile']} "
               f"hostile ones; the upstream fails {results['failures']:.0%} of its requests.")
    return f"{machine(results)} {clients}\n\n{pages.table(head, rows)}\n\n{failures(results)}"


def failures(results: Results) -> str:
    """Which honest requests failed, and how many an upstream fails that often."""
    counts: Counter[str] = sum((Counter(row["failures"]) for row in results["rows"]), Counter())
    honest = sum(row["honest"] for row in results["rows"])
    listed = ", ".join(f"{count} with status {status}" for status, count in sorted(counts.items()))
    expected = honest * results["failures"] ** ATTEMPTS
    return (f"Of {honest:,} honest requests {counts.total()} failed: {listed}. The upstream fails "
            f"all {ATTEMPTS} attempts at about {expected:.0f} of so many, which have status 502; "
            "504 is a choice that came too late.")


def throughput(results: Results) -> str:
    """Each contender beside the one that it is compared with, the last."""
    rows = []
    for clients in sorted({row["clients"] for row in results["results"]}):
        runs = [row for row in results["results"] if row["clients"] == clients]
        slowest, most = runs[-1]["per_second"], runs[-1]["processor_ms"]
        rows += [[clients, row["name"], f"{row['per_second']:,.0f}",
                  f"{row['per_second'] / slowest:.1f}", row["processor_ms"],
                  f"1/{most / row['processor_ms']:.1f}", row["median_ms"], row["p99_ms"],
                  f"{row['errors']:.0f}"] for row in runs]
    head = ["clients", "", "requests/s", "times the last", "CPU, ms", "of the last", "median, ms",
            "99th, ms", "errors"]
    return f"{machine(results)}\n\n{pages.table(head, rows)}"


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "speed": ("results.json", speed), "bars": ("results.json", bars),
    "quality": ("quality.json", quality), "kinds": ("quality.json", kinds),
    "load": ("load.json", load), "throughput": ("throughput.json", throughput)}


def write() -> None:
    """Fill the tables whose results there are."""
    pages.fill(HERE / "README.md", {
        name: make(json.loads((HERE / file).read_text(encoding="utf-8")))
        for name, (file, make) in TABLES.items() if (HERE / file).exists()})


if __name__ == "__main__":
    write()
