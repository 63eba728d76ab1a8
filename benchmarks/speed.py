"""Makes the numbers of the project's README from the results of benchmarks and experiments.

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
EXPERIMENTS = HERE.parent / "experiments"
HEAD = ["1,024 samples of a sentence", "conditions", "minrisk", "others", "times faster"]


def headlines() -> str:
    """A number of quality for each kind of model, with its caveat, and one of speed."""
    votes = _read(EXPERIMENTS, "calibration", "results.json")["metrics"]["exact-match"]
    one, chosen, any_of = (votes["coverage"][name] for name in ("one", "chosen", "any_of"))
    corpus = _read(EXPERIMENTS, "number-of-samples", "results.json")["corpora"]["en-fr"]
    bleu = corpus["judges"]["BLEU"]
    chrf = _read(HERE, "chrf", "results.json")
    times = {(t["competitor"], t["work"]): t["median"] for t in chrf["choice"]["times"]}
    ours, theirs = times["minrisk 1 thread", "exact"], times["fastchrf", "exact"]
    return f"""\
- **Language models**: on {votes["problems"]} problems of GSM8K, one sample of \
Qwen2.5-0.5B-Instruct is right {one["value"]:.0%} of the time, and the
  majority vote of 16 samples {chosen["value"]:.0%} (95% interval: {chosen["low"]:.0%} to \
{chosen["high"]:.0%}). In [{1 - any_of["16"]["value"]:.0%} of the problems]\
(docs/numbers/calibration.md), no sample is right.
- **Translation**: on {corpus["segments"]} segments of news, one sample of OPUS-MT en-fr has \
{bleu["mbr"]["1"]["score"]:.1f} BLEU, and the choice by chrF among 256
  samples {bleu["mbr"]["256"]["score"]:.1f}; [beam search has {bleu["beam"]:.1f}]\
(docs/numbers/number-of-samples.md), so there is no clear gain over it.
- **Speed**: scoring all pairs of {chrf["choice"]["samples"]:,} samples by chrF takes \
{milliseconds(ours)} ms on one thread of an {chrf["machine"]["cpu"]},
  and {theirs:.0f} s with [fastChrF](docs/numbers/chrf.md). The choice is the same."""


def table() -> str:
    """The table, with what was measured, and whole runs."""
    rows = [*_chrf(), *_comet(), _sampling()]
    return f"{pages.table(HEAD, rows)}\n\n{_process()}\n{_versions()}"


def _process() -> str:
    results = _read(HERE, "chrf", "results.json")
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
        m = _read(HERE, *file)["machine"]
        version = f"{m['minrisk']} on {m['date']}" if "date" in m else m["minrisk"]
        found.setdefault(version, []).append(name)
    each = [f"{version} ({', '.join(names)})" for version, names in found.items()]
    return f"Measured with minrisk {', '.join(each)}."


def _chrf() -> list[list[str]]:
    results = _read(HERE, "chrf", "results.json")
    times = {(t["competitor"], t["work"]): t["median"] for t in results["choice"]["times"]}
    conditions = "CPU, one thread each"
    return [_row(title, conditions, times["minrisk 1 thread", work], "fastchrf",
                 times[peer, work])  # whose exact scores use one thread at any rate
            for work, title, peer in (("exact", "exact MBR by chrF", "fastchrf"),
                                      ("aggregate", "chrF, averaged references",
                                       "fastchrf 1 thread"))]


def _comet() -> list[list[str]]:
    results = _read(HERE, "comet", "cuda.json")
    ours, theirs = results["ours"], results["theirs"]
    device = results["machine"]["device"].removeprefix("NVIDIA ")
    conditions = f"{device}, one sentence, random weights"
    return [_row(title, conditions, ours[work]["median_s"],
                 *min(((f"{name}'s loop", own[work]["median_s"]) for name, own in theirs.items()),
                      key=lambda pair: pair[1]))
            for work, title in (("exact", "exact MBR by COMET"),
                                ("aggregate", "COMET, averaged references"))]


def _sampling() -> list[str]:
    results = _read(HERE, "sampling", "cuda.json")
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


def _read(where: Path, folder: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((where / folder / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    pages.fill(README, {"headlines": headlines(), "speed": table()})


if __name__ == "__main__":
    main()
