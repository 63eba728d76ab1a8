"""How often do the tests of `minrisk score` find a difference, if there is none or one?

    python experiments/significance/run.py en-fr.jsonl.xz

Each line of the file has many samples of a model and a human `reference`. Two systems that take a
random sample of each segment do not differ; if one takes the better of two in some segments, it is
better. Writes results.json, the share of all trials in which each test finds a difference at 5%,
and the table of README.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk.evaluation import scoring
from minrisk.io.files import Input

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

Corpus = Callable[[np.ndarray], float]

TRIALS = 2000
RESAMPLES = 399  # and permutations
SAMPLES = 128  # of each segment
LEVEL = 0.05
SIZES = (30, 200)
IMPROVED = (0.0, 0.25, 0.5)  # share of the segments where a system takes the better of two samples
TESTS = ("permutation", "bootstrap", "interval")


def main(path: str) -> None:
    source = Input(path)
    records = [json.loads(source.text(line)) for line in source]
    rows = [*_rows("mean of sentence chrF", *_of_chrf(records)),
            *_rows("corpus BLEU", *_of_bleu(records))]
    made = {"trials": TRIALS, "resamples": RESAMPLES, "level": LEVEL,
            "version": minrisk.__version__, "rows": rows}
    (HERE / "results.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", {"found": table(made)})


def _of_chrf(records) -> tuple[Corpus, np.ndarray, np.ndarray]:
    chrf = minrisk.ChrF()
    quality = np.stack([chrf.scores(chrf.features(own["samples"][:SAMPLES]),
                                    chrf.features([own["reference"]]))[:, 0] for own in records])
    return scoring._mean, np.stack([quality, np.ones_like(quality)], axis=-1), quality


def _of_bleu(records) -> tuple[Corpus, np.ndarray, np.ndarray]:
    bleu = minrisk.BLEU()
    statistics = np.stack([bleu.statistics(own["samples"][:SAMPLES], [[own["reference"]]] * SAMPLES)
                           for own in records])
    return bleu.corpus, statistics, np.apply_along_axis(bleu.corpus, 2, statistics)


def _rows(name: str, corpus: Corpus, statistics: np.ndarray,
          quality: np.ndarray) -> Iterator[dict[str, Any]]:
    """Of statistics (N, samples, S), and of each sample's own quality (N, samples)."""
    for size in SIZES:
        for improved in IMPROVED:
            rng = np.random.default_rng(0)
            trials = [_found(corpus, _systems(statistics, quality, size, improved, rng), trial)
                      for trial in range(TRIALS)]
            yield {"metric": name, "segments": size, "improved": improved,
                   "found": dict(zip(TESTS, np.mean(trials, axis=0).tolist(), strict=True))}


def _systems(statistics: np.ndarray, quality: np.ndarray, size: int, improved: float,
             rng: np.random.Generator) -> np.ndarray:
    """(2, N, S) statistics of two systems on some of the segments."""
    segments = rng.choice(len(statistics), size=size, replace=False)
    first, second, other = rng.integers(statistics.shape[1], size=(3, size))
    better = quality[segments, other] > quality[segments, second]
    second = np.where(better & (rng.random(size) < improved), other, second)
    return np.stack([statistics[segments, first], statistics[segments, second]])


def _found(corpus: Corpus, systems: np.ndarray, seed: int) -> list[bool]:
    """Whether each test finds a difference; an interval does if it does not hold zero."""
    sampled = scoring._resample(corpus, systems, RESAMPLES, seed)
    values = [corpus(own) for own in systems.sum(axis=1)]
    [permutation] = scoring._permutation_p_values(corpus, systems, RESAMPLES, seed)
    [bootstrap] = scoring._bootstrap_p_values(values, sampled)
    low, high = scoring._central_95(sampled[1] - sampled[0])
    return [permutation <= LEVEL, bootstrap <= LEVEL, not low <= 0 <= high]


def table(results: dict[str, Any]) -> str:
    """The rows of the README's table."""
    head = ["metric", "segments", "improved", "permutation test", "bootstrap test", "interval"]
    return pages.table(head, [
        [row["metric"], row["segments"], f"{row['improved']:.0%}",
         *(f"{row['found'][name]:.1%}" for name in TESTS)] for row in results["rows"]])


if __name__ == "__main__":
    main(*sys.argv[1:])
