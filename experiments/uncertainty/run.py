"""Do samples that disagree announce a poor translation?

    python experiments/uncertainty/run.py fr-en=fr-en.jsonl.xz en-fr=en-fr.jsonl.xz

Each file has samples and a human `reference` per line. Standard MBR by chrF chooses, chrF against
the human reference judges, and each measure of uncertainty is correlated with that (Spearman, with
a 95% interval over resampled segments). The threshold of the clusters is chosen on the first file
and holds for the others. Writes results.json, and the table of README.md.
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

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SAMPLES = (16, 128, 1024)
RESAMPLES = 2000
CHRF = minrisk.ChrF()
FIELDS = ("entropy", "largest", "utility")


def main(*files: str) -> None:
    corpora = {name: _records(path) for name, path in (file.split("=", 1) for file in files)}
    found = {name: {str(n): _correlations(records, n) for n in SAMPLES}
             for name, records in corpora.items()}
    first, largest = next(iter(found)), str(max(SAMPLES))
    threshold = max(THRESHOLDS, key=lambda t: -found[first][largest][f"entropy {t}"]["rho"])
    made = {"question": "rank correlation with chrF against a human reference",
            "signature": minrisk.signature(minrisk.Standard(CHRF)),
            "segments": {name: len(records) for name, records in corpora.items()},
            "threshold": {"of": first, "value": threshold}, "correlations": found}
    (HERE / "results.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", {"translations": table(made)})


def table(results: dict[str, Any]) -> str:
    """The correlations at the chosen threshold."""
    chosen = results["threshold"]
    rows = [[f"{name} ({'chosen on' if name == chosen['of'] else 'held out'})", f"{int(n):,}",
             *(_cell(own[field if field == "utility" else f"{field} {chosen['value']}"])
               for field in FIELDS)]
            for name, sizes in results["correlations"].items() for n, own in sizes.items()]
    return pages.table(["", "samples", "entropy", "largest cluster", "mean utility"], rows)


def _cell(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['rho']:.2f} ({low:.2f} to {high:.2f})".replace("-", "−")


def _records(path: str) -> list[dict[str, Any]]:
    source = Input(path)
    return [json.loads(source.text(line)) for line in source]


def _correlations(records: list[dict[str, Any]], n: int) -> dict[str, Any]:
    columns: dict[str, list[float]] = {}
    quality = []
    for index, record in enumerate(records):
        for threshold in THRESHOLDS:
            strategy = minrisk.Uncertain(minrisk.Standard(CHRF), threshold=threshold)
            ranking = minrisk.decode(record["samples"][:n], position=index, strategy=strategy)
            for field in FIELDS:
                label = field if field == "utility" else f"{field} {threshold}"
                value = getattr(ranking.uncertainty, field)
                columns.setdefault(label, []).append(value)
        # the last of them, for the choice is the same with each
        quality.append(float(minrisk.score([ranking.text], [record["reference"]]).value))
        columns["utility"] = columns["utility"][:index + 1]
    return {label: _rank_correlation(np.array(values), np.array(quality))
            for label, values in columns.items()}


def _rank_correlation(one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    draws = [rng.integers(one.size, size=one.size) for _ in range(RESAMPLES)]
    drawn = np.sort([_spearman(one[rows], other[rows]) for rows in draws])
    cut = RESAMPLES // 40
    return {"rho": round(_spearman(one, other), 3),
            "interval": [round(float(drawn[cut]), 3), round(float(drawn[-1 - cut]), 3)]}


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    """0 where one of them is constant, which announces nothing."""
    if one.min() == one.max() or other.min() == other.max():
        return 0.0
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equals share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[place]


if __name__ == "__main__":
    main(*sys.argv[1:])
