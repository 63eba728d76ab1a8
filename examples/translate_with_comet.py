"""Translation: choose among a model's samples by COMET, exactly and with averaged references.

Needs `pip install 'minrisk[comet]'`. A real run names `Unbabel/wmt22-comet-da`, and samples with
`minrisk.translate(sources, 64, model="Helsinki-NLP/opus-mt-en-fr", epsilon=0.02, metric=comet)`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import stand_ins

import minrisk


def main() -> None:
    segments = stand_ins.translations(segments=3, samples=32)
    with tempfile.TemporaryDirectory() as folder:
        comet = minrisk.make_metric("comet", model=stand_ins.comet(Path(folder)), device="cpu")
        # every sample against all samples: they are the references too
        exact = minrisk.decode_corpus(segments, metric=comet)
        # the average of all references first, then the best 8 exactly: linear, not quadratic
        fast = minrisk.decode_corpus(segments, metric=comet, strategy="aggregate-to-fine", keep=8)
        for segment, one, other in zip(segments, exact, fast, strict=True):
            print(f"source:            {segment['source']}")
            print(f"exact:             {one.text}  ({one.ranking.pairs} pairs)")
            print(f"aggregate-to-fine: {other.text}  ({other.ranking.pairs} pairs)")


if __name__ == "__main__":
    main()
