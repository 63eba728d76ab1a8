"""Is exact BLEU MBR as cheap as chrF's? Measures, and writes results.json.

usage: python benchmarks/bleu/run.py [--turns N] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "chrf"))  # the texts and the rules are the same

import core
import data
import tables
from contest import Competitor, Entry, compare, compare_spot, rounded, say, variants, workers

SCRIPT = HERE / "competitors.py"
CHRF = Competitor("minrisk chrf", "chrf", script=SCRIPT)
SACREBLEU = Competitor("sacrebleu", "sacrebleu", script=SCRIPT)
WORKS = ("exact", "aggregate")


def measure(samples: int, turns: int, cores: Sequence[str]) -> dict[str, Any]:
    """From samples to the choice; sacreBLEU's pairs are those of a few hypotheses."""
    texts = data.fastchrf_samples(samples)
    ours = variants(cores, SCRIPT)
    with workers([*ours, CHRF, SACREBLEU]) as team:
        for worker in team.values():
            worker.ask("set", texts=texts)
        bleu = [Entry(team[c.label], work) for work in WORKS for c in ours]
        entries = [*bleu, *(Entry(team[CHRF.label], work) for work in WORKS),
                   Entry(team[SACREBLEU.label], "spot")]
        for entry in entries:
            entry.ask()
            say(f"    {entry.title}: {entry.answer['seconds']:.4f} s before timing")
        agreed = [row for work in WORKS for row in compare([e for e in bleu if e.work == work])]
        spot = compare_spot(bleu[0], entries[-1])
        for turn in range(turns):
            for entry in entries:
                entry.take_turn(turn, slow_turns=3)
        return {"samples": len(texts), "agreement": agreed, "spot": spot,
                "times": [entry.result() for entry in entries]}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def main() -> int:
    given = options()
    if not data.FASTCHRF_SAMPLES.is_file():
        say("nothing to measure: the research data are not here "
            f"({data.FASTCHRF_SAMPLES.name} is missing)")
        return 0
    cores = core.native_cores()
    found = {
        "machine": core.describe(cores, "sacrebleu"),
        **measure(given.samples, given.turns, cores),
    }
    given.output.write_text(json.dumps(rounded(found), indent=1) + "\n", encoding="utf-8")
    if given.output == HERE / "results.json":
        tables.update()
    return 0


if __name__ == "__main__":
    sys.exit(main())
