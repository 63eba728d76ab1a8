"""Makes the tables of README.md from results.json, so that no number is typed by hand.

usage: python benchmarks/chrf/table.py [--results FILE] [--readme FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bars import Results, advantage, all_bars, growth, late, seconds

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

README = HERE / "README.md"


def ms(value: float | None) -> str:
    return "" if value is None else pages.number(1000 * value)


def times(value: float) -> str:
    """A ratio as a reader says it."""
    return f"{pages.number(value)}x"


def machine_line(results: Results) -> str:
    m = results["machine"]
    also = [f"{m['simd']} in use", m["system"], m["compiler"] or "no compiler"]
    note = "A quick run: these are not the numbers to judge by. " if results["quick"] else ""
    return note + pages.machine_line(m, "fastchrf", "mbrs", "numpy", also=also)


def bars_table(results: Results) -> str:
    return pages.table(["work", "target", "measured", ""],
                    ([b.work, b.bar, b.measured, b.verdict] for b in all_bars(results)))


def choice_table(results: Results) -> str:
    tables = [_choice(results["choice"], "fastchrf")]
    if results["choice_with_mbrs"]:
        tables.append(_choice(results["choice_with_mbrs"], "mbrs"))
    return "\n\n".join(tables)


def _choice(part: Results, peer: str) -> str:
    exact, aggregate = (seconds(part, peer, work) for work in ("exact", "aggregate"))
    rows = [[t["competitor"], t["work"], ms(t["median"]), ms(t["min"]), t["repeats"],
             times(exact / t["median"]), times(aggregate / t["median"])]
            for t in sorted(part["times"], key=lambda t: (t["work"] != "exact", t["median"]))]
    head = [f"{part['samples']:,} samples", "work", "median ms", "min ms", "repeats",
            f"against {peer} exact", f"against {peer} aggregate"]
    return pages.table(head, rows) + "\n\n" + agreement_line(part)


def agreement_line(part: Results) -> str:
    apart = max(a["largest_difference"] for a in part["agreement"])
    ours = [a for a in part["agreement"] if a["other"].startswith("minrisk")]
    same = sum(a["same_choice"] for a in part["agreement"])
    bits = " minrisk's variants agree to the last bit." if ours else ""
    return (f"Compared first: {same} of {len(part['agreement'])} make the same choice; utilities "
            f"differ by at most {apart:.1g} on a scale of 100.{bits}")


def sweep_table(results: Results) -> str:
    return "\n\n".join(f"{s['series']}:\n\n{_sweep(s['points'])}" for s in results["sweep"])


def _sweep(points: list[Results]) -> str:
    rows = [[f"{p['samples']:,}", f"{p['characters'] / p['samples']:.0f}",
             ms(seconds(p, "minrisk", "exact")), ms(seconds(p, "minrisk", "aggregate")),
             ms(seconds(p, "fastchrf", "aggregate")), ms(seconds(p, "fastchrf", "exact")),
             times(advantage(p)), *_per(p)] for p in points]
    head = ["samples", "characters each", "exact ms", "aggregate ms", "fastchrf aggregate ms",
            "fastchrf pairwise ms", "exact against fastchrf aggregate", "aggregate, us a sample",
            "ns a character"]
    first, last = (late(points)[i]["samples"] for i in (0, -1))
    return pages.table(head, rows) + (
        f"\n\nFrom {first:,} to {last:,} samples, aggregation's time grows as characters to the "
        f"power {growth(points):.2f}.")


def _per(point: Results) -> list[str]:
    aggregate = seconds(point, "minrisk", "aggregate")
    return [f"{aggregate / point['samples'] * 1e6:.2f}",
            f"{aggregate / point['characters'] * 1e9:.1f}"]


def whole_table(results: Results) -> str:
    """What a user waits for: processes, memory, import."""
    large, imports = results["large"], results["imports"]
    rows = [[f"exact utilities, {large['samples']:,} x {large['samples']:,} (pooled samples)",
             f"{large['median']:.3g}", f"{large['min']:.3g}",
             f"{large['extra_bytes'] / 1e6:,.0f} extra"]]
    rows += [[f"`minrisk decode --strategy {p['strategy']}`, {p['segments']} segments",
              f"{p['median']:.3g}", f"{p['min']:.3g}", f"{p['peak_bytes'] / 1e6:,.0f}"]
             for p in results["processes"]]
    rows += [[f"`import {name}`", f"{t['median']:.3f}", f"{t['min']:.3f}", ""]
             for name, t in imports.items()]
    return pages.table(["", "median s", "min s", "peak MB"], rows)


def limit_table(results: Results) -> str:
    found = results["limit"]
    if "skipped" in found:
        return f"Not measured: {found['skipped']}."
    return "\n\n".join([_stages(found["stages"]), _kernels(found), _reading(found)])


def _stages(stages: Results) -> str:
    rows = [[r["kernels"], r["threads"], *(ms(s["median"]) for s in r["seconds"].values()),
             f"{ns_per_character(r, stages):.1f}"] for r in stages["runs"]]
    return pages.table(["kernels", "threads", "n-grams ms", "placing columns ms", "pairs ms",
                     "of which lists ms", "aggregate ms", "n-grams, ns a character"], rows)


def ns_per_character(run: Results, stages: Results) -> float:
    return run["seconds"]["index"]["median"] / stages["characters"] * 1e9


def _kernels(found: Results) -> str:
    rows = [[r["kernels"], r["threads"], f"{r['words_per_pair']:.0f}",
             f"{r['list_increments_per_pair']:.2f}", f"{stage_rate(r) / 1e9:.2f}",
             f"{kernel_rate(r) / 1e9:.2f}", f"{peak(r, found) / 1e9:.2f}",
             f"{stage_rate(r) / peak(r, found):.0%}", f"{kernel_rate(r) / peak(r, found):.0%}"]
            for r in found["stages"]["runs"]]
    return pages.table(["kernels", "threads", "words a pair", "list steps a pair",
                     "10^9 words/s in the pair stage", "in the kernel alone", "peak",
                     "stage, share of peak", "kernel, share of peak"], rows)


def words(run: Results) -> float:
    return run["words_per_pair"] * run["pairs"]


def stage_rate(run: Results) -> float:
    """Words ANDed per second, over all that the pair stage does."""
    return words(run) / run["seconds"]["pairs"]["median"]


def kernel_seconds(run: Results) -> float:
    """The pair stage without its lists."""
    return run["seconds"]["pairs"]["median"] - run["seconds"]["lists"]["median"]


def kernel_rate(run: Results) -> float:
    return words(run) / kernel_seconds(run)


def peak(run: Results, found: Results) -> float:
    return found["peak_words_per_second"][run["kernels"]][str(run["threads"])]


def _reading(found: Results) -> str:
    """In words, for the kernels in use on all cores."""
    best = found["stages"]["runs"][0]["kernels"]
    run = [r for r in found["stages"]["runs"] if r["kernels"] == best][-1]
    stages = {name: s["median"] for name, s in run["seconds"].items()}
    exact = stages["index"] + stages["placement"] + stages["pairs"]
    floor = words(run) / peak(run, found)
    other = kernel_seconds(run) - floor
    return (
        f"On all cores ({best}, {run['threads']} threads) the pair stage takes "
        f"{ms(stages['pairs'])} ms: {ms(stages['lists'])} ms for the lists of rare n-grams, "
        f"{ms(floor)} ms that ANDing and counting would take at peak, and {ms(other)} ms for the "
        f"rest of the kernel, which is precision, recall and F of every pair in double precision, "
        f"and words that come from farther away than the first-level cache. The pairs are "
        f"{stages['pairs'] / exact:.0%} of the core's {ms(exact)} ms, finding the n-grams "
        f"{stages['index'] / exact:.0%}.")


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine_line,
    "bars": bars_table,
    "choice": choice_table,
    "sweep": sweep_table,
    "whole": whole_table,
    "limit": limit_table,
}


def update(readme: Path, results: Results) -> None:
    pages.fill(readme, {name: make(results) for name, make in TABLES.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--readme", type=Path, default=README)
    given = parser.parse_args()
    results = json.loads(given.results.read_text(encoding="utf-8"))
    update(given.readme, results)


if __name__ == "__main__":
    main()
