"""Is a composed JSON answer better than the best sample?

    python experiments/compose/run.py [samples.jsonl.xz]

Reads problems with a gold answer and samples of a language model, and evaluates every method on the
same samples: in up to four disjoint blocks of n, of which a number is the mean. Intervals are of
95%, by resampling problems; differences are paired by problem. Writes results.json and the tables
of README.md.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk._core.json_values import NOTHING, canonical_form, find_json, leaves

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

SIZES = (4, 8, 16, 32)
BLOCKS = 4
BY_FIELD = minrisk.JsonMatch(by="field")
PICKED = "picked: `standard`, by field"
METHODS: dict[str, minrisk.Strategy] = {
    "majority of whole answers": minrisk.Standard(minrisk.JsonMatch()),
    PICKED: minrisk.Standard(BY_FIELD),
    "composed: `compose`": minrisk.Compose(BY_FIELD),
    "`compose --lists whole`": minrisk.Compose(BY_FIELD, lists="whole"),
    "`compose --numbers median`": minrisk.Compose(BY_FIELD, numbers="median"),
}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "samples.jsonl.xz"
    opened = lzma.open if path.suffix == ".xz" else open
    tasks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            tasks[record["task"]].append(record)
    result = {"minrisk": minrisk.__version__, "rows": [
        row for task, records in tasks.items() for row in evaluated(task, records)]}
    (HERE / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", tables(result))


def evaluated(task: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The accuracy of every method on a task, with n samples."""
    least = min(len(record["samples"]) for record in records)
    return [row for n in SIZES if n <= least for row in _rows(task, records, n)]


def _rows(task: str, records: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    values: dict[str, list[np.ndarray]] = defaultdict(list)
    for record in records:
        blocks = [record["samples"][start:start + n] for start in range(
            0, min(BLOCKS * n, len(record["samples"]) - n + 1), n)]
        gold = parts(record["gold"])
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        for texts in blocks:
            each = [(*accuracy(text, gold), 0.0) for text in texts]
            found["one sample"].append(tuple(np.mean(each, axis=0)))
            for name, strategy in METHODS.items():
                ranking = minrisk.decode(texts, strategy=strategy)
                found[name].append((*accuracy(ranking.text, gold),
                                    float(ranking.proposed is not None)))
            found["best of the samples (oracle)"].append(max(each))
        for name, own in found.items():
            values[name].append(np.mean(own, axis=0))
    picked = np.array(values[PICKED])[:, 0]
    return [{"task": task, "problems": len(records), "n": n, "method": name,
             "fields": interval(np.array(own)[:, 0]), "whole": interval(np.array(own)[:, 1]),
             "over picked": interval(np.array(own)[:, 0] - picked),
             "composed": float(np.mean(np.array(own)[:, 2]))} for name, own in values.items()]


def accuracy(text: str, gold: frozenset[tuple[str, str]]) -> tuple[float, float]:
    """The agreement of the fields with the gold answer (F1), and whether all are right."""
    found = parts(text)
    return 2 * len(found & gold) / (len(found) + len(gold)), float(found == gold)


def parts(text: str) -> frozenset[tuple[str, str]]:
    """The fields of an answer with their values; items by their name, whatever their order."""
    value = find_json(text)
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        value = value | {"items": {canonical_form(item.get("name")): item
                                   for item in value["items"] if isinstance(item, dict)}}
    return frozenset() if value is NOTHING else frozenset(leaves(value))


def interval(values: np.ndarray) -> list[float]:
    """The mean of all problems, and the bounds of its 95% interval."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (5000, len(values)))].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, (0.025, 0.975)).tolist()]


def tables(result: dict[str, Any]) -> dict[str, str]:
    """The tables of README.md by their names; one for each task and number of samples."""
    head = ["method", "fields right (F1)", "all fields right", "F1 over picked", "composed"]
    parts = []
    for task, n in dict.fromkeys((row["task"], row["n"]) for row in result["rows"]):
        own = [row for row in result["rows"] if (row["task"], row["n"]) == (task, n)]
        parts += [f"**{task}**, {own[0]['problems']} problems, {n} samples:", pages.table(head, [
            [row["method"], percent(*row["fields"]), percent(*row["whole"]),
             percent(*row["over picked"], sign="+"), f"{row['composed']:.0%}"] for row in own])]
    return {"results": "\n\n".join(parts)}


def percent(mean: float, low: float, high: float, sign: str = "") -> str:
    return f"{100 * mean:{sign}.1f} ({100 * low:{sign}.1f} to {100 * high:{sign}.1f})"


if __name__ == "__main__":
    main()
