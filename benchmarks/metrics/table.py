"""Makes the tables of README.md from results.json, so that no number is typed by hand.

usage: python benchmarks/metrics/table.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

OURS = "minrisk"
TITLES = {"mbrs": "mbrs", "originals": "the original"}

Results = dict[str, Any]


def machine_line(results: Results) -> str:
    m = results["machine"]
    originals = [m["originals"]] if "originals" in m else []
    return pages.machine_line(m, "mbrs", also=[m["system"], *originals])


def works_table(results: Results) -> str:
    parts = [f"{work}, milliseconds:\n\n{_table(results, work)}"
             for work in ("pairwise", "aggregate")]
    return "\n\n".join([*parts, f"Models have {results['models']}. Times faster are at the largest "
                        "number of samples that both finished; an empty cell is a work that the "
                        "library does not have; *over* is a call that would have taken more than "
                        f"{results['budget']:g} seconds, judged by the sizes before."])


def _table(results: Results, work: str) -> str:
    rows = [row for row in results["rows"] if row["work"] == work]
    sizes = sorted({row["samples"] for row in rows})
    peers = list(dict.fromkeys(row["library"] for row in rows if row["library"] != OURS))
    found = {(r["metric"], r["library"], r["samples"]): r for r in rows}
    head = ["metric", *(f"n = {size:,}" for size in sizes),
            *(f"times faster than {TITLES[peer]}" for peer in peers)]
    lines = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        cells = [_ms(found.get((metric, OURS, size))) for size in sizes]
        ratios = [_ratio(metric, peer, found, sizes) for peer in peers]
        lines.append([f"`{metric}`", *cells, *ratios])
    return pages.table(head, lines)


def _ratio(metric: str, peer: str, found: dict[Any, Results], sizes: list[int]) -> str:
    common = [size for size in sizes if all(
        "median" in found.get((metric, library, size), {}) for library in (OURS, peer))]
    if not common:
        return ""
    ours, theirs = (found[metric, library, common[-1]]["median"] for library in (OURS, peer))
    return f"{pages.number(theirs / ours)} (n = {common[-1]:,})"


def _ms(row: Results | None) -> str:
    if row is None:
        return ""
    if "median" not in row:
        return "*over*"
    return pages.number(1000 * row["median"])


TABLES: dict[str, Callable[[Results], str]] = {"machine": machine_line, "works": works_table}


def update(results: Results) -> None:
    pages.fill(HERE / "README.md", {name: make(results) for name, make in TABLES.items()})


if __name__ == "__main__":
    update(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
