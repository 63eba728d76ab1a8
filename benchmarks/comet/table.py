"""Fills the tables of README.md from cuda.json, cpu.json and formats.json: none is typed by hand.

usage: python benchmarks/comet/table.py
       python benchmarks/speed.py    # then, for the table of the project's README
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

BARS = {"exact": "130 (90)", "pairs": "45 (32)", "aggregate": "80 (60)"}  # ms: target (stretch)

Results = dict[str, Any]


def ms(timing: Results, share: float = 1.0) -> str:
    return pages.number(1000 * share * timing["median_s"])


def machine(results: Results) -> str:
    return (f"{pages.machine_line(results['machine'], 'torch', 'transformers')} "
            f"{results['samples']} samples; tokenizing, not included: "
            f"{ms(results['tokenizing'])} ms.")


def rate(results: Results, part: str) -> str:
    """Operations a second, and how near that is to a large matrix product's."""
    done = results["operations"][part] / results["ours"][part]["median_s"]
    return f"{done / 1e12:,.3g} TFLOP/s, {done / results['peak']:.0%}"


def ways(results: Results) -> str:
    ours, theirs = results["ours"], results["theirs"]
    rows = [["**minrisk**", ms(ours["exact"]), ms(ours["encoder"]), ms(ours["pairs"]),
             ms(ours["aggregate"]), *agreement(results, "minrisk")]]
    if results["machine"]["device"].startswith("NVIDIA"):
        rows.append(["minrisk, plain path", ms(ours["exact, plain path"]),
                     ms(ours["encoder, plain path"]), ms(ours["pairs, plain path"]), "", "", ""])
    rows += [[name, ms(own["exact"]), ms(own["encoder"]), "", ms(own["aggregate"]),
              *agreement(results, name)] for name, own in theirs.items()]
    head = ["ms", "exact", "of which encoder", "of which pairs", "aggregate",
            "same choice", "rank correlation with fp32"]
    return pages.table(head, rows)


def agreement(results: Results, name: str) -> list[str]:
    found = results["agreement"][name]
    return ["yes" if found["same choice"] else "no", f"{found['rank correlation']:.4f}"]


def best(results: Results, work: str) -> float:
    return min(own[work]["median_s"] for own in results["theirs"].values())


def against(results: Results) -> str:
    exact = results["ours"]["exact"]["median_s"]
    return (f"Exact is {best(results, 'exact') / exact:.1f} times as fast as the fastest of the "
            f"others' exact computations, and {best(results, 'aggregate') / exact:.1f} times as "
            "fast as the fastest of their aggregates.")


def cuda_table(results: Results) -> str:
    head = ["", "target (stretch), ms", "measured, ms", "of the card's measured peak"]
    bars = pages.table(head, [
        [name, BARS[name], ms(results["ours"][name]), rate(results, part) if part else ""]
        for name, part in (("exact", ""), ("pairs", "pairs"), ("aggregate", ""))]
        + [["encoder", "", ms(results["ours"]["encoder"]), rate(results, "encoder")]])
    peak = f"A large bf16 product runs at {results['peak'] / 1e12:.0f} TFLOP/s here."
    return "\n\n".join([machine(results), ways(results), against(results), bars, peak])


def cpu_table(results: Results) -> str:
    alike, own = (seconds / results["ours"]["exact"]["median_s"]
                  for seconds in (results["theirs"]["comet-mbr"]["exact"]["median_s"],
                                  results["comet-mbr in fp16, s"]))
    share = 1e-9 * results["operations"]["encoder"] / results["ours"]["encoder"]["median_s"]
    bar = (f"Compared with comet-mbr's method (target: 5): {own:.1f} times as fast in fp16, its "
           f"own precision, which is slow on this CPU (one run); {alike:.1f} times in fp32. "
           f"Both must run the encoder, which runs at {share:.0f} GFLOP/s here, and a large "
           "product at "
           f"{1e-9 * results['peak']:.0f}.")
    return "\n\n".join([machine(results), ways(results), against(results), bar])


def batching_table(results: Results) -> str:
    found = results["batching"]
    share = 1 / found["segments"]
    rows = [[name, ms(found[name], share)] for name in
            ("together", "one at a time", "one at a time, plain path")]
    rows += [[f"{name}, one at a time", ms(own, 1 / own["segments"])]
             for name, own in found["peers, one at a time"].items()]
    return pages.table([f"{found['segments']} segments of {found['samples']} samples",
                     "ms a segment"], rows)


def precision_table(results: Results) -> str:
    return pages.table(
        ["", "ms", "largest error", "rank correlation"],
        [[name, ms(own) if "median_s" in own else "", f"{own['largest error']:.2g}",
          f"{own['rank correlation']:.5f}"] for name, own in results["precisions"].items()])


def formats_table(results: Results) -> str:
    names = list(results["results"][0]["formats"])
    rows = []
    for run in results["results"]:
        found = run["formats"].values()
        rows.append([f"{run['shape']}, {run['samples']} samples: times as fast as {names[0]}",
                     *(f"{own['times as fast as fp32']:.3g}" for own in found)])
        rows.append(["largest error of a utility, rank correlation", *(
            f"{own['largest error']:.2g}, {own['rank correlation']:.4f}" for own in found)])
    conditions = pages.machine_line(results, "torch", "transformers", also=["one thread"])
    return f"{conditions}\n\n{pages.table(['', *names], rows)}"


def limits_line(results: Results) -> str:
    parts = [f"{own['samples']:,} samples" + (f" with `memory={own['memory option, GB']:g}`"
                                              if own["memory option, GB"] else "")
             + f" take {own['seconds']:.2f} s in the first call and "
             f"{own['extra bytes'] / 1e9:.2f} GB beside the model" for own in results["limits"]]
    return "; ".join(parts) + "."


def main() -> None:
    cuda, cpu, formats = (json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
                          for name in ("cuda", "cpu", "formats"))
    pages.fill(HERE / "README.md", {
        "cuda": cuda_table(cuda), "batching": batching_table(cuda),
        "precision": precision_table(cuda), "limits": limits_line(cuda), "cpu": cpu_table(cpu),
        "formats": formats_table(formats)})


if __name__ == "__main__":
    main()
