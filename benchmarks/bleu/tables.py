"""Makes the tables of README.md from results.json, so that no number is typed by hand.

usage: python benchmarks/bleu/tables.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parent / "chrf")]  # what all benchmarks share

import pages
from bars import Bar, seconds
from table import agreement_line, ms, times

Results = dict[str, Any]


def machine_line(results: Results) -> str:
    m = results["machine"]
    return pages.machine_line(m, "sacrebleu", "numpy", also=[
        f"{m['simd']} in use", m["system"], m["compiler"]])


def whole_loop(results: Results) -> float:
    """Seconds that sacreBLEU would take for all pairs, at the pace of those it was given."""
    share = results["spot"]["hypotheses"] / results["samples"]
    return seconds(results, "sacrebleu", "spot") / share


def bars(results: Results) -> list[Bar]:
    exact = seconds(results, "minrisk", "exact")
    loop, chrf = whole_loop(results) / exact, seconds(results, "minrisk chrf", "exact") / exact
    n = f"{results['samples']:,}"
    return [
        Bar(f"exact, {n} samples, against a loop of sacreBLEU's sentence scores",
            "500 times faster", f"{loop:,.0f} times", loop >= 500),
        Bar(f"exact, {n} samples, against chrF", "not slower", f"{chrf:.2f} times as fast",
            chrf >= 1),
    ]


def bars_table(results: Results) -> str:
    return pages.table(["work", "target", "measured", ""],
                    ([b.work, b.bar, b.measured, b.verdict] for b in bars(results)))


def times_table(results: Results) -> str:
    loop = whole_loop(results)
    rows = [[t["competitor"], t["work"], ms(t["median"]), ms(t["min"]), t["repeats"],
             times(loop / t["median"])] for t in results["times"] if t["work"] != "spot"]
    rows.append(["sacrebleu, a loop", "exact (extrapolated)", ms(loop), "", "", times(1)])
    head = [f"{results['samples']:,} samples", "work", "median ms", "min ms", "repeats",
            "against sacrebleu exact"]
    spot = results["spot"]
    return (pages.table(head, rows) + f"\n\n{agreement_line(results)} sacreBLEU scored "
            f"{spot['hypotheses']} hypotheses against all references; their utilities differ by "
            f"at most {spot['largest_difference']:.1g}.")


TABLES = {"machine": machine_line, "bars": bars_table, "times": times_table}


def update() -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    pages.fill(HERE / "README.md", {name: make(results) for name, make in TABLES.items()})


if __name__ == "__main__":
    update()
