"""Makes the tables of README.md from results.json, so that no number is typed by hand.

usage: python benchmarks/metrics/table.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLACE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

OURS = "minrisk"
TITLES = {"mbrs": "mbrs", "originals": "the original"}

Results = dict[str, Any]


def machine_line(results: Results) -> str:
    m = results["machine"]
    peers = f"; mbrs {m['mbrs']}" if "mbrs" in m else ""
    peers += f"; {m['originals']}" if "originals" in m else ""
    busy = f"; load {m['load']} from other work when it began" if m["load"] >= 1 else ""
    return (f"{m['cpu']}, {m['cores']} cores; {m['system']}; Python {m['python']}; "
            f"minrisk {m['minrisk']}{peers}{busy}.")


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
    lines = [head, ["---"] * len(head)]
    for metric in dict.fromkeys(row["metric"] for row in rows):
        cells = [_ms(found.get((metric, OURS, size))) for size in sizes]
        ratios = [_ratio(metric, peer, found, sizes) for peer in peers]
        lines.append([f"`{metric}`", *cells, *ratios])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ratio(metric: str, peer: str, found: dict[Any, Results], sizes: list[int]) -> str:
    common = [size for size in sizes if all(
        "median" in found.get((metric, library, size), {}) for library in (OURS, peer))]
    if not common:
        return ""
    ours, theirs = (found[metric, library, common[-1]]["median"] for library in (OURS, peer))
    return f"{_number(theirs / ours)} (n = {common[-1]:,})"


def _ms(row: Results | None) -> str:
    if row is None:
        return ""
    if "median" not in row:
        return "*over*"
    value = row["median"] * 1000
    return _number(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


TABLES: dict[str, Callable[[Results], str]] = {"machine": machine_line, "works": works_table}


def update(results: Results) -> None:
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    filled = PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]](results)}\n{m[3]}", text)
    readme.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    update(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
