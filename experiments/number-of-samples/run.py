"""How many samples are enough?

    python experiments/number-of-samples/run.py fr-en=fr-en.jsonl.xz en-fr=en-fr.jsonl.xz

Each file has 1,024 `samples`, a human `reference` and the output of a beam search (`beam5`) per
line. The samples are cut into sets of n; standard MBR by chrF chooses from each of the first sets,
and BLEU, chrF and TER against the human reference judge. Writes results.json, and the table of
README.md; docs/figures/number_of_samples.py draws the figure.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk.io.files import Input

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

SAMPLES = [2**k for k in range(11)]
SETS = 8  # of each size, where there are as many
RESAMPLES = 1000
JUDGES = {"BLEU": minrisk.BLEU(), "chrF": minrisk.ChrF(), "TER": minrisk.Ter()}
ERRORS = ("TER",)  # negated inside
CHRF = minrisk.ChrF()


def main(*files: str) -> None:
    corpora = dict(file.split("=", 1) for file in files)
    made = {"question": "score of the choice of standard MBR by chrF, by the number of samples",
            "signature": minrisk.signature(minrisk.Standard(CHRF)),
            "sets": SETS, "corpora": {name: _corpus(path) for name, path in corpora.items()}}
    (HERE / "results.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", {"scores": table(made)})


def table(results: dict[str, Any]) -> str:
    """The scores and the differences from beam search, by the number of samples."""
    columns = [(f"{name}, {judge}", found["judges"][judge]) for judge in JUDGES
               for name, found in results["corpora"].items()]
    rows = [[f"{n:,}", *(_cell(found["mbr"][str(n)]) for _, found in columns)] for n in SAMPLES]
    rows.append(["beam search", *(f"{found['beam']:.2f}" for _, found in columns)])
    return pages.table(["samples", *(title for title, _ in columns)], rows)


def _cell(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{row['score']:.2f} ({row['beyond_beam']:+.2f}; {low:+.2f} to {high:+.2f})"


def _corpus(path: str) -> dict[str, Any]:
    source = Input(path)
    records = [json.loads(source.text(line)) for line in source]
    references = [record["reference"] for record in records]
    beam = [record["beam5"] for record in records]
    chosen = {n: [_choices(records, n, k) for k in range(min(SETS, SAMPLES[-1] // n))]
              for n in SAMPLES}
    return {"segments": len(records), "judges": {
        judge: _judged(judge, beam, chosen, references) for judge in JUDGES}}


def _choices(records: list[dict[str, Any]], n: int, k: int) -> list[str]:
    """What MBR chooses from the k-th set of n samples."""
    return [minrisk.decode(record["samples"][k * n:(k + 1) * n], metric=CHRF).text
            for record in records]


def _judged(judge: str, beam: list[str], chosen: dict[int, list[list[str]]],
            references: list[str]) -> dict[str, Any]:
    sign = -1 if judge in ERRORS else 1
    rows = {}
    for n, sets in chosen.items():
        systems = {"beam": beam, **{str(k): lines for k, lines in enumerate(sets)}}
        scores = minrisk.score(systems, references, metric=JUDGES[judge], resamples=RESAMPLES)
        values = [sign * float(scores[str(k)].value) for k in range(len(sets))]
        low, high = sorted(sign * bound for bound in scores["0"].ahead)
        rows[str(n)] = {"score": round(float(np.mean(values)), 2),
                        "sets": [round(value, 2) for value in values],
                        "beyond_beam": round(values[0] - sign * float(scores["beam"].value), 2),
                        "interval": [round(low, 2), round(high, 2)]}
    return {"beam": round(sign * float(scores["beam"].value), 2), "mbr": rows}


if __name__ == "__main__":
    main(*sys.argv[1:])
