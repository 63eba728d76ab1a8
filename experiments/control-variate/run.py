"""How close do few pairs come to exact MBR with a metric of COMET's form?

usage: python experiments/control-variate/run.py [--segments N] [--hidden 512,128] [--epochs N]

Writes results.json and the tables of README.md beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from claims import SIZES, claims
from corrections import corrected
from data import SEGMENTS, embeddings, samples
from estimator import Frozen, train

import minrisk

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import machine
import pages

Found = dict[str, list[tuple[bool, float, float]]]  # per method: right, loss, share of pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument("--hidden", default="512,128")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    vectors = embeddings()
    start = time.perf_counter()
    estimator, spearman = train(vectors, list(map(int, options.hidden.split(","))), 0,
                                options.epochs)
    print(f"trained in {time.perf_counter() - start:.0f} s, Spearman {spearman:.3f}", flush=True)
    metrics = Frozen(vectors, estimator), Frozen(vectors, estimator, expected=False)
    methods: Found = {}
    variants: Found = {}
    for index, record in enumerate(samples()[: options.segments]):
        segment = minrisk.Segment(record["samples"], source=record["source"], position=index)
        compare(segment, *metrics, methods, variants)
        results = {"machine": machine.describe("torch", "numpy"), "segments": index + 1,
                   "hidden": options.hidden, "epochs": options.epochs, "spearman": spearman,
                   "methods": summary(methods), "variants": summary(variants)}
        (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_tables(results)


def compare(segment: minrisk.Segment, metric: Frozen, papers: Frozen, methods: Found,
            variants: Found) -> None:
    batch = minrisk.Batch([segment])
    [exact] = minrisk.Standard(metric).rank(batch)
    for name, strategy in strategies(metric, papers, len(segment.references)):
        [ranking] = strategy.rank(batch)
        note(methods, name, segment, exact, ranking.best, ranking.pairs / exact.pairs)
    pool, _ = batch.pools(metric)[0].distinct_hypotheses()
    for name, utility, share in corrected(pool, SIZES):
        text = pool.segment.hypotheses[int(np.argmax(utility))]
        note(variants, name, segment, exact, segment.hypotheses.index(text), share)


def strategies(metric: Frozen, papers: Frozen, count: int) -> Iterator[tuple[str, Any]]:
    yield "aggregate embeddings (the paper)", minrisk.Aggregate(papers)
    yield "aggregate first layer", minrisk.Aggregate(metric)
    for size in SIZES:
        yield f"n-by-s, {size}", minrisk.NByS(metric, size)
        yield f"partial aggregation (the paper), {size}", minrisk.Aggregate(papers, size)
        yield f"centroid, {size}", minrisk.Centroid(papers, size)
        yield f"adaptive, {size}", minrisk.Adaptive(metric, size / count)
        yield f"low-rank, {size}", minrisk.LowRank(metric, size / count)
        yield f"aggregate-to-fine (the paper), {size}", minrisk.Cascade(
            minrisk.Aggregate(papers), minrisk.Standard(metric), size)
        yield f"aggregate-to-fine, first layer, {size}", minrisk.AggregateToFine(metric, size)
        yield f"control-variate, {size}", minrisk.ControlVariate(metric, size / count)
    yield "prune", minrisk.Prune(metric)


def note(found: Found, name: str, segment: minrisk.Segment, exact: minrisk.Ranking, best: int,
         share: float) -> None:
    right = segment.hypotheses[best] == segment.hypotheses[exact.best]
    loss = (exact.utility[exact.best] - exact.utility[best]) / exact.utility.std()
    found.setdefault(name, []).append((right, float(loss), share))


def summary(found: Found) -> dict[str, dict[str, Any]]:
    """Means over segments, with 95% intervals."""
    return {name: _summary(np.array(rows, float)) for name, rows in found.items()}


def _summary(rows: np.ndarray) -> dict[str, Any]:
    top1, loss, pairs = rows.mean(axis=0)
    drawn = np.random.default_rng(0).integers(len(rows), size=(2000, len(rows)))
    return {"top1": float(top1), "top1_interval": wilson(float(top1), len(rows)),
            "loss": float(loss), "pairs": float(pairs),
            "loss_interval": np.quantile(rows[drawn, 1].mean(axis=1), (0.025, 0.975)).tolist()}


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Of a share, also near 0 and 1 (Wilson 1927)."""
    middle = share + z * z / (2 * count)
    width = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    whole = 1 + z * z / count
    return float((middle - width) / whole), float((middle + width) / whole)


def write_tables(results: dict[str, Any]) -> None:
    conditions = (f"{results['segments']} segments, hidden layers {results['hidden']}, "
                  f"{results['epochs']} epochs. "
                  f"{pages.machine_line(results['machine'], 'torch', 'numpy')}")
    pages.fill(HERE / "README.md", {
        "machine": conditions, **claims(results["methods"]),
        **{part: table(results[part]) for part in ("methods", "variants")}})


def table(found: dict[str, Any]) -> str:
    return pages.table(["", "pairs", "top-1", "loss"], [
        [name, f"{row['pairs']:.1%}", f"{row['top1']:.2f} {_span(row['top1_interval'])}",
         f"{row['loss']:.4f} {_span(row['loss_interval'], 4)}"] for name, row in found.items()])


def _span(interval: tuple[float, float], digits: int = 2) -> str:
    return f"({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"


if __name__ == "__main__":
    main()
