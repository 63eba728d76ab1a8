"""Training data: sample, decode by MBR, and export targets and preference pairs.

A small model learns to give at once what MBR finds among many samples (Finkelstein et al. 2023;
Yang et al. 2023). A real run samples with `model="Helsinki-NLP/opus-mt-en-fr", epsilon=0.02`
instead of the sampler below, or on the command line: `minrisk sample`, `decode`, `export`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stand_ins

import minrisk
from minrisk.plugins import Sample, Sampler


class Recorded(Sampler):
    """the samples that a translation model gave earlier"""

    name = "recorded"

    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        known = {s["source"]: s["samples"] for s in stand_ins.translations(segments=4, samples=n)}
        return [[Sample(text) for text in known[prompt]] for prompt in prompts]


def main() -> None:
    sources = [segment["source"] for segment in stand_ins.translations(segments=4, samples=1)]
    with tempfile.TemporaryDirectory() as folder:
        samples, best, pairs = (Path(folder, name)
                                for name in ("samples.jsonl", "best.tsv", "pairs.jsonl"))
        # each file is whole or not there; with resume=True an interrupted call goes on
        print(minrisk.sample(sources, 64, sampler=Recorded(), output=samples).counts)
        # the best sample of each source is the target to fine-tune on
        minrisk.export(samples, output=best, format="tsv")
        # the best and the worst are a pair for DPO and its relatives
        minrisk.export(samples, output=pairs, pairs="best-worst", prompt="Into French: {source}")
        print(best.read_text(encoding="utf-8"), end="")
        print(pairs.read_text(encoding="utf-8").splitlines()[0])


if __name__ == "__main__":
    main()
