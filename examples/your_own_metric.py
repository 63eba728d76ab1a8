"""A metric of your own: a function, then a class with options, which any strategy can use.

With an entry point in the group `minrisk.metrics` of your package, the command line knows it too:
`minrisk decode samples.jsonl --metric word-overlap --metric.min-length 4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

import minrisk
from minrisk.plugins import Groups, Metric, option
from minrisk.testing import check_metric

SAMPLES = ["the cat sat on the mat", "a cat sat on a mat", "the cat was on the mat",
           "dogs run in the park", "the cat sat on a mat"]


def shared_words(hypothesis: str, reference: str) -> float:
    return float(len(set(hypothesis.split()) & set(reference.split())))


@dataclass(frozen=True)
class WordOverlap(Metric[np.ndarray]):
    """the number of words that two texts share"""

    name = "word-overlap"
    min_length: int = option(1, ge=1, help="number of letters that a word must have to count")

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """(N, 4096) whether each text has a word, by the word's number."""
        found = np.zeros((len(texts), 4096))
        for row, text in enumerate(texts):
            for word in text.split():
                if len(word) >= self.min_length:
                    found[row, crc32(word.encode()) % 4096] = 1
        return found

    def scores(self, hyps: np.ndarray, refs: np.ndarray, source: object = None) -> np.ndarray:
        return hyps @ refs.T  # (H, R), for averages too

    def aggregate(self, refs: np.ndarray, groups: Groups) -> np.ndarray:
        total = np.zeros((len(groups), refs.shape[1]))
        np.add.at(total, groups.labels, groups.share[:, None] * refs)
        return total


def main() -> None:
    print("a function:", minrisk.decode(SAMPLES, metric=shared_words).text)
    metric = WordOverlap(min_length=3)
    check_metric(metric)  # the contract that every metric keeps
    for strategy in ("standard", "aggregate", "prune"):
        ranking = minrisk.decode(SAMPLES, metric=metric, strategy=strategy)
        print(f"{strategy}: {ranking.text} ({ranking.pairs} pairs)")
    print(ranking.signature)


if __name__ == "__main__":
    main()
