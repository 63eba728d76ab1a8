"""Compares the metric `mqm` with others on the test sets.

usage: python experiments/mqm/evaluate.py

Writes results.json, and the table of README.md beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from data import NEWS, Judgement, judgements, sides, test_sets
from scoring import accuracy, difference, distinct, spearman, with_interval

import minrisk
from minrisk._core.groups import WeightedRows
from minrisk.metrics.neural.mqm import MQM

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

STATISTICS = {"Spearman": spearman, "accuracy": accuracy}
OURS, RIVALS = "mqm", ("ridge on the same features", "chrF")
Results = dict[str, dict[str, Any]]


def main() -> None:
    results = {name: evaluated(distinct(rows)) for name, rows in test_sets().items()}
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_table(results)


def evaluated(rows: Sequence[Judgement]) -> dict[str, Any]:
    scores = {"chrF": chrf(rows), "cosine of the embeddings": cosine(rows),
              "ridge on the same features": ridge(rows), "mqm": mqm(rows)}
    return {"rows": len(rows), "sources": len({row.source for row in rows}),
            "systems": {system: {name: with_interval(statistic, own, rows)
                                 for name, statistic in STATISTICS.items()}
                        for system, own in scores.items()},
            "differences": {f"{OURS} less {rival}": {
                name: difference(statistic, scores[OURS], scores[rival], rows)
                for name, statistic in STATISTICS.items()} for rival in RIVALS}}


def chrf(rows: Sequence[Judgement]) -> np.ndarray:
    metric = minrisk.ChrF()
    return np.array([metric.scores(metric.features([row.hypothesis]),
                                   metric.features([row.reference]))[0, 0] for row in rows])


def cosine(rows: Sequence[Judgement]) -> np.ndarray:
    mt, ref, _ = sides(rows)
    return (mt * ref).sum(axis=1)


def ridge(rows: Sequence[Judgement]) -> np.ndarray:
    return features(rows) @ _ridge()


@cache
def _ridge() -> np.ndarray:
    """Least squares with a penalty of 1, on what the estimator sees, untuned."""
    rows = judgements(NEWS)
    inputs, truth = features(rows), np.array([row.score for row in rows])
    inputs -= inputs.mean(axis=0)
    return np.linalg.solve(inputs.T @ inputs + np.eye(inputs.shape[1]),
                           inputs.T @ (truth - truth.mean()))


def features(rows: Sequence[Judgement]) -> np.ndarray:
    mt, ref, src = (vectors.astype(np.float64) for vectors in sides(rows))
    return np.concatenate([mt, ref, mt * ref, abs(mt - ref), mt * src, abs(mt - src)], axis=1)


def mqm(rows: Sequence[Judgement]) -> np.ndarray:
    metric = MQM(device="numpy")
    every = np.arange(len(rows))
    mt, ref, src = (WeightedRows.plain(metric, vectors, every) for vectors in sides(rows))
    return np.array([metric.scores(mt[one], ref[one], src[one])[0, 0] for one in every[:, None]])


def write_table(results: Results) -> None:
    head = ["", "", *(f"{name} ({found['sources']} sources)" for name, found in results.items())]
    rows = [*_rows(results, "systems", "{:.3f} ({:.3f} to {:.3f})"),
            *_rows(results, "differences", "{:+.3f} ({:+.3f} to {:+.3f}), p = {:.3f}")]
    pages.fill(HERE / "README.md", {"agreement": pages.table(head, rows)})


def _rows(results: Results, part: str, form: str) -> Iterator[list[str]]:
    """One for each statistic of each system, or difference, with a cell for each test set."""
    found = [own[part] for own in results.values()]
    for statistic in STATISTICS:
        for name in found[0]:
            yield [statistic, name, *(form.format(*own[name][statistic]) for own in found)]


if __name__ == "__main__":
    main()
