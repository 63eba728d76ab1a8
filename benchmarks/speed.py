"""Makes the table of speed in the project's README from the results of the benchmarks.

usage: python benchmarks/speed.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # also where it is loaded by its path

import pages

README = HERE.parent / "README.md"
HEAD = ["1,024 samples of a sentence", "on", "minrisk", "others", "times faster"]


def table() -> str:
    """The table, and a line on whole runs."""
    return f"{pages.table(HEAD, [*_chrf(), *_comet(), _sampling()])}\n\n{_process()}"


def _process() -> str:
    results = _read("chrf", "results.json")
    run = next(p for p in results["processes"] if p["strategy"] == "standard")
    return (f"The CPU is an {results['machine']['cpu']}. There `minrisk decode` of "
            f"{run['segments']} segments of 1,024\nsamples, exact, from compressed file to output, "
            f"takes {run['median']:.1f} s and {run['peak_bytes'] / 1e6:.0f} MB.")


def _chrf() -> list[list[str]]:
    results = _read("chrf", "results.json")
    times = {(t["competitor"], t["work"]): t["median"] for t in results["choice"]["times"]}
    place = f"{results['machine']['cores']} CPU cores"
    return [_row(title, place, times["minrisk", work], "fastchrf", times["fastchrf", work])
            for work, title in (("exact", "exact MBR by chrF"),
                                ("aggregate", "chrF, averaged references"))]


def _comet() -> list[list[str]]:
    results = _read("comet", "cuda.json")
    ours, theirs = results["ours"], results["theirs"]
    place = results["machine"]["device"].removeprefix("NVIDIA ")
    return [_row(title, place, ours[work]["median_s"],
                 *min(((f"{name}'s loop", own[work]["median_s"]) for name, own in theirs.items()),
                      key=lambda pair: pair[1]))
            for work, title in (("exact", "exact MBR by COMET"),
                                ("aggregate", "COMET, averaged references"))]


def _sampling() -> list[str]:
    results = _read("sampling", "cuda.json")
    found = results["translation"]
    each = {name: median(turn["wall"] for turn in turns) / found["segments"][name]
            for name, turns in found["times"].items()}
    return _row("sampling from OPUS-MT en-fr", results["machine"]["gpu"].removeprefix("NVIDIA "),
                each["minrisk"], "transformers", each["generate"])


def _row(title: str, place: str, ours: float, other: str, theirs: float) -> list[str]:
    return [title, place, f"**{milliseconds(ours)} ms**", f"{other}: {milliseconds(theirs)} ms",
            f"{theirs / ours:,.0f}" if theirs > 10 * ours else f"{theirs / ours:.1f}"]


def milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _read(folder: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / folder / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    pages.fill(README, {"speed": table()})


if __name__ == "__main__":
    main()
