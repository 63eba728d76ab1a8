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
HEAD = ["1,024 samples of a sentence", "conditions", "minrisk", "others", "times faster"]


def table() -> str:
    """The table, with what was measured, and whole runs."""
    rows = [*_chrf(), *_comet(), _sampling()]
    return f"{pages.table(HEAD, rows)}\n\n{_process()}\n{_versions()}"


def _process() -> str:
    results = _read("chrf", "results.json")
    run = next(p for p in results["processes"] if p["strategy"] == "standard")
    return (f"The CPU is an {results['machine']['cpu']}. There `minrisk decode` of "
            f"{run['segments']} segments of 1,024\nsamples, exact, from compressed file to output, "
            f"takes {run['median']:.1f} s and {run['peak_bytes'] / 1e6:.0f} MB.")


def _versions() -> str:
    """What was measured with which version, and when if the results say it."""
    files = {"chrF": ("chrf", "results.json"), "COMET": ("comet", "cuda.json"),
             "sampling": ("sampling", "cuda.json")}
    found: dict[str, list[str]] = {}
    for name, file in files.items():
        m = _read(*file)["machine"]
        version = f"{m['minrisk']} on {m['date']}" if "date" in m else m["minrisk"]
        found.setdefault(version, []).append(name)
    each = [f"{version} ({', '.join(names)})" for version, names in found.items()]
    return f"Measured with minrisk {', '.join(each)}."


def _chrf() -> list[list[str]]:
    results = _read("chrf", "results.json")
    times = {(t["competitor"], t["work"]): t["median"] for t in results["choice"]["times"]}
    conditions = "CPU, one thread each"
    return [_row(title, conditions, times["minrisk 1 thread", work], "fastchrf",
                 times[peer, work])  # whose exact scores use one thread at any rate
            for work, title, peer in (("exact", "exact MBR by chrF", "fastchrf"),
                                      ("aggregate", "chrF, averaged references",
                                       "fastchrf 1 thread"))]


def _comet() -> list[list[str]]:
    results = _read("comet", "cuda.json")
    ours, theirs = results["ours"], results["theirs"]
    device = results["machine"]["device"].removeprefix("NVIDIA ")
    conditions = f"{device}, one sentence, random weights"
    return [_row(title, conditions, ours[work]["median_s"],
                 *min(((f"{name}'s loop", own[work]["median_s"]) for name, own in theirs.items()),
                      key=lambda pair: pair[1]))
            for work, title in (("exact", "exact MBR by COMET"),
                                ("aggregate", "COMET, averaged references"))]


def _sampling() -> list[str]:
    results = _read("sampling", "cuda.json")
    found = results["translation"]
    each = {name: median(turn["wall"] for turn in turns) / found["segments"][name]
            for name, turns in found["times"].items()}
    device = results["machine"]["gpu"].removeprefix("NVIDIA ")
    conditions = f"{device}, {found['segments']['minrisk']} sentences at once against one"
    return _row("sampling from OPUS-MT en-fr", conditions, each["minrisk"], "transformers",
                each["generate"])


def _row(title: str, conditions: str, ours: float, other: str, theirs: float) -> list[str]:
    return [title, conditions, f"**{milliseconds(ours)} ms**",
            f"{other}: {milliseconds(theirs)} ms",
            f"{theirs / ours:,.0f}" if theirs > 10 * ours else f"{theirs / ours:.1f}"]


def milliseconds(seconds: float) -> str:
    return pages.number(1000 * seconds)


def _read(folder: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / folder / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    pages.fill(README, {"speed": table()})


if __name__ == "__main__":
    main()
