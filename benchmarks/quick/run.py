"""How fast is this version, here? About two minutes, on the samples that minrisk brings along.

usage: python benchmarks/quick/run.py [--output FILE] [--samples N] [--turns N] [--repeats N]
                                      [--segments N]

Writes a JSON file that `compare.py` compares with that of another version.
"""

from __future__ import annotations

import argparse
import json
import lzma
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parent / "chrf")]  # the rules are chrF's

import machine
from contest import Competitor, Entry, compare, compare_spot, rounded, say, timing, workers
from processes import imports, spawn

BLEU = HERE.parent / "bleu" / "competitors.py"
COMPETITORS = {  # by metric, with their works; "spot" is a loop over the first 8 hypotheses
    "chrf": [(Competitor("minrisk", "minrisk"), ("exact", "aggregate")),
             (Competitor("fastchrf", "fastchrf"), ("exact", "aggregate"))],
    "bleu": [(Competitor("minrisk", "minrisk", script=BLEU), ("exact", "aggregate")),
             (Competitor("sacrebleu", "sacrebleu", script=BLEU), ("spot",))],
}
PEERS = ("fastchrf", "sacrebleu")
SMALL = 16  # samples of each segment in a file of many small segments
Times = dict[str, Any]  # what was measured: its median, minimum and number of repeats


def demo_segments() -> list[list[str]]:
    """The samples of every bundled segment."""
    with lzma.open(str(files("minrisk") / "data" / "demo.jsonl.xz"), "rt", encoding="utf-8") as f:
        return [json.loads(line)["samples"] for line in f]


def distinct_samples(count: int) -> list[str]:
    """Distinct samples of the bundled segment that has most of them."""
    return max((list(dict.fromkeys(s)) for s in demo_segments()), key=len)[:count]


def choices(metric: str, texts: list[str], turns: int) -> Times:
    """From samples to the choice; answers are compared before anything is timed."""
    taking_part = [(competitor, works) for competitor, works in COMPETITORS[metric]
                   if machine.installed(competitor.name)]
    with workers([competitor for competitor, _ in taking_part]) as team:
        entries = [Entry(team[c.label], work) for c, works in taking_part for work in works]
        for worker in team.values():
            worker.ask("set", texts=texts)
        for entry in entries:
            entry.ask()
        for work in ("exact", "aggregate"):
            compare([entry for entry in entries if entry.work == work])
        for entry in entries:
            if entry.work == "spot":
                compare_spot(entries[0], entry)
        for turn in range(turns):
            for entry in entries:
                entry.take_turn(turn, slow_turns=2)
    return {f"{metric} {e.work}, {len(texts)} samples, {e.worker.label}": timing(e.seconds)
            for e in entries}


def decodes(repeats: int, count: int | None) -> Times:
    """The command line from start to exit: large segments, and many small ones."""
    large = demo_segments()[:count]
    small = [samples[i:i + SMALL] for samples in large for i in range(0, len(samples), SMALL)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for segments in (large, small):
            path, output = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            path.write_text("".join(json.dumps({"samples": s}) + "\n" for s in segments),
                            encoding="utf-8")
            runs = [spawn([sys.executable, "-m", "minrisk", "decode", str(path), "-q",
                           "--overwrite", "-o", str(output)]) for _ in range(repeats + 1)]
            name = f"decode {len(segments)} segments of {len(segments[0])} samples"
            found[name] = {**timing([r["seconds"] for r in runs[1:]]),
                           "peak_bytes": max(r["peak_bytes"] for r in runs)}
    return found


def measure(samples: int, turns: int, repeats: int, segments: int | None) -> dict[str, Any]:
    texts = distinct_samples(samples)
    parts: Sequence[Callable[[], Times]] = (
        lambda: {f"import {name}": found for name, found in imports(repeats).items()},
        lambda: choices("chrf", texts, turns),
        lambda: choices("bleu", texts, turns),
        lambda: decodes(repeats, segments))
    times: Times = {}
    for part in parts:
        found = part()
        for name, timed in found.items():
            say(f"  {name}: {1000 * timed['min']:.4g} ms")
        times |= found
    return {"machine": {"name": platform.node(), **machine.describe("numpy", *PEERS)},
            "times": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("bench-quick.json"))
    parser.add_argument("--samples", type=int, default=256, help="samples to choose from")
    parser.add_argument("--turns", type=int, default=9, help="turns of each competitor")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each kind")
    parser.add_argument("--segments", type=int, help="bundled segments to decode; all unless given")
    given = parser.parse_args()
    found = rounded(measure(given.samples, given.turns, given.repeats, given.segments))
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    say(f"written to {given.output}")


if __name__ == "__main__":
    main()
