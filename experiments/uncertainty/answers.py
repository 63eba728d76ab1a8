"""Do samples that disagree announce a wrong answer?

    python experiments/uncertainty/answers.py gsm8k.jsonl.xz

Each line has `samples`, whose answer is the number in the last box, and the `gold` number. The
choice by each metric is right if its last number is the gold one. AUROC is the probability that
a right choice has the smaller entropy (or the larger `largest`) of a right and a wrong one, in
all and in either half, of the lines with even and with odd numbers. Writes answers.json, and the
table of README.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk.io.files import Input
from minrisk.metrics.votes.exact_match import canonical_number

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

BOXED = r"\\boxed\{[^}]*?(-?\d[\d,]*(?:\.\d+)?)[^}\d]*\}"
METRICS = {"exact-match": minrisk.ExactMatch(BOXED, numbers=True), "symbolic": "symbolic",
           "embedding": "embedding", "chrf": "chrf"}
HALVES = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}


def main(path: str) -> None:
    source = Input(path)
    records = [json.loads(source.text(line)) for line in source]
    found = {name: measured(records, metric) for name, metric in METRICS.items()}
    results = {"question": "AUROC of a right choice", "segments": len(records), "metrics": found}
    (HERE / "answers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", {"answers": table(results)})


def table(results: dict[str, Any]) -> str:
    rows = [[f"`{name}`", found["all"]["right"],
             *(cell for key in ("entropy", "largest") for cell in (
                 f"{found['all'][key]:.3f}", f"{found['even'][key]:.3f}, {found['odd'][key]:.3f}")),
             found["clusters"]] for name, found in results["metrics"].items()]
    return pages.table(["metric", "right", "entropy", "even, odd", "largest", "even, odd",
                        "clusters"], rows)


def measured(records: Sequence[dict[str, Any]], metric: Any) -> dict[str, Any]:
    results = list(minrisk.decode_corpus([record["samples"] for record in records], metric=metric,
                                         uncertainty=True))
    right = np.array([_number(result.text) == canonical_number(record["gold"])
                      for result, record in zip(results, records, strict=True)])
    found = [result.ranking.uncertainty for result in results]
    columns = {"entropy": np.array([-one.entropy for one in found]),
               "largest": np.array([one.largest for one in found]),
               "utility": np.array([one.utility for one in found])}
    return {half: {"right": int(right[rows].sum()), "of": int(right[rows].size),
                   **{name: round(_auroc(values[rows], right[rows]), 3)
                      for name, values in columns.items()}}
            for half, rows in HALVES.items()} | {
                "clusters": round(float(np.mean([one.clusters for one in found])), 1)}


def boxed(text: str) -> str | None:
    """The number in the last box."""
    return next(reversed(re.findall(BOXED, text)), None)


def _number(text: str) -> str:
    """The number in the last box, or else the last of all."""
    found = boxed(text) or next(reversed(re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)), "")
    return canonical_number(found)


def _auroc(values: np.ndarray, right: np.ndarray) -> float:
    ours, theirs = values[right][:, None], values[~right]
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
