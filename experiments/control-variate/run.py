"""How close do few pairs come to exact MBR with a metric of COMET's form?

usage: python experiments/control-variate/run.py [--segments N] [--hidden 512,128] [--epochs N]

Writes results.json and the tables of README.md beside it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import SEGMENTS, embeddings, samples
from estimator import Frozen, train

import minrisk
from minrisk.kmeans import kmeans, nearest_members
from minrisk.strategies.drawing import chances, drawn

HERE = Path(__file__).parent
SIZES = (4, 8, 16, 32)
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
        segment = minrisk.Segment(record["samples"], source=record["source"], index=index)
        compare(segment, *metrics, methods, variants)
        results = {"machine": machine(), "segments": index + 1, "hidden": options.hidden,
                   "epochs": options.epochs, "spearman": spearman,
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
    pool, _ = batch.pools(metric)[0].once()
    for name, utility, share in corrected(pool, metric):
        text = pool.segment.hypotheses[int(np.argmax(utility))]
        note(variants, name, segment, exact, segment.hypotheses.index(text), share)


def strategies(metric: Frozen, papers: Frozen, count: int) -> Iterator[tuple[str, Any]]:
    yield "aggregate embeddings (the paper)", minrisk.Aggregate(papers)
    yield "aggregate first layer", minrisk.Aggregate(metric)
    for size in SIZES:
        yield f"n-by-s, {size}", minrisk.NByS(metric, size)
        yield f"partial aggregation (the paper), {size}", minrisk.Aggregate(papers, size)
        yield f"centroid, {size}", minrisk.Centroid(papers, size)
        yield f"adaptive, {size}/{count}", minrisk.Adaptive(metric, size / count)
        yield f"low-rank, {size}/{count}", minrisk.LowRank(metric, size / count)
        yield f"control-variate, {size}", minrisk.ControlVariate(metric, size)
    yield "prune", minrisk.Prune(metric)


def corrected(pool: minrisk.Pool, metric: Frozen) -> Iterator[tuple[str, np.ndarray, float]]:
    """Other corrections of the same surrogate, with the share of pairs that they need."""
    columns, mass = pool.references_once()
    made = metric.surrogate(pool.texts[pool.hyp_rows], pool.texts[pool.ref_rows[columns]], mass,
                            pool.source)
    missed = pool.scores(columns) - made.at(pool.texts[pool.ref_rows[columns]])  # (H, R)
    points = pool.vectors()[columns]
    for size in SIZES:
        rng = np.random.default_rng([size, pool.segment.index])
        share = (1 + size) / mass.size
        chance = chances(mass, size)
        rows = drawn(chance, rng.permutation(mass.size), rng.random())
        random = missed[:, rows] @ (mass / chance)[rows]
        yield f"random, {size}", made.mean + random, share
        yield f"shrunk, {size}", made.mean + shrinkage(missed[:, rows]) * random, share
        labels = kmeans(points, mass, size, 10, rng)
        near = nearest_members(points, mass, labels)
        yield f"exemplars, {size}", made.mean + missed[:, near] @ np.bincount(labels, mass), share


def shrinkage(missed: np.ndarray) -> float:
    """How much of the corrections' variance over hypotheses is not noise."""
    size = missed.shape[1]
    noise = missed.var(axis=1, ddof=1).mean() / size
    return float(max(0.0, 1 - noise / missed.mean(axis=1).var()))


def note(found: Found, name: str, segment: minrisk.Segment, exact: minrisk.Ranking, best: int,
         share: float) -> None:
    right = segment.hypotheses[best] == segment.hypotheses[exact.best]
    loss = (exact.utility[exact.best] - exact.utility[best]) / exact.utility.std()
    found.setdefault(name, []).append((right, float(loss), share))


def summary(found: Found) -> dict[str, dict[str, float]]:
    means = {name: np.mean(np.array(rows, float), axis=0) for name, rows in found.items()}
    return {name: {"top1": float(top1), "loss": float(loss), "pairs": float(pairs)}
            for name, (top1, loss, pairs) in means.items()}


def machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "cores": str(len(names)),
            "python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "minrisk": minrisk.__version__}


def write_tables(results: dict[str, Any]) -> None:
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    for part in ("methods", "variants"):
        lines = ["| | pairs | top-1 | loss |", "|---|---|---|---|"]
        lines += [f"| {name} | {row['pairs']:.1%} | {row['top1']:.2f} | {row['loss']:.4f} |"
                  for name, row in results[part].items()]
        table = "\n".join(lines)
        text = re.sub(rf"(<!-- table: {part} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\2", text,
                      flags=re.DOTALL)
    m = results["machine"]
    line = (f"{results['segments']} segments, hidden layers {results['hidden']}, "
            f"{results['epochs']} epochs, Spearman {results['spearman']:.2f} on 60 sources of ted2021. "
            f"{m['cpu']}, {m['cores']} cores; Python {m['python']}, torch {m['torch']}, "
            f"NumPy {m['numpy']}, minrisk {m['minrisk']}.")
    text = re.sub(r"(<!-- machine -->\n).*?(<!-- end -->)", rf"\g<1>{line}\n\2", text,
                  flags=re.DOTALL)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
