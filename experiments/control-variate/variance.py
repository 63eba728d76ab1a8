"""Does it help to carry variances through the tanh, and can few references tell them?

usage: python experiments/control-variate/variance.py [--segments N] [--hidden 512,128]

E tanh(x) of a normal x is near tanh(mean / sqrt(1 + pi/2 variance)). Writes the last table of
README.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from data import embeddings, samples
from estimator import train
from torch import Tensor

from minrisk.metrics.comet.estimator import Estimator

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

FEW = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--hidden", default="512,128")
    options = parser.parse_args()
    vectors = embeddings()
    estimator, _ = train(vectors, list(map(int, options.hidden.split(","))), 0, 4)
    found: dict[str, list[tuple[bool, float]]] = {}
    for index, record in enumerate(samples()[: options.segments]):
        texts, counts = np.unique(record["samples"], return_counts=True)
        mt = torch.as_tensor(np.stack([vectors[text] for text in texts.tolist()]))
        src = torch.as_tensor(vectors[record["source"]])[None]
        mass = torch.as_tensor(counts / counts.sum(), dtype=torch.float32)
        exact, guesses = utilities(estimator, mt, src, mass, np.random.default_rng(index))
        for name, guess in guesses:
            best = guess.argmax()
            lost = float((exact.max() - exact[best]) / exact.std())
            found.setdefault(name, []).append((lost < 1e-6, lost))
    table = pages.table(["variance of what goes into the tanh", "top-1", "loss"], [
        [name, *map("{:.{}f}".format, np.mean(rows, axis=0), (2, 4))]
        for name, rows in found.items()])
    pages.fill(HERE / "README.md", {"variances": f"{table}\n\n{options.segments} segments."})


@torch.inference_mode()
def utilities(estimator: Estimator, mt: Tensor, src: Tensor, mass: Tensor,
              rng: np.random.Generator) -> tuple[Tensor, Iterator[tuple[str, Tensor]]]:
    """What is exact, and what moments of the layers make of it."""
    [second] = estimator.middle
    few = torch.as_tensor(rng.choice(len(mt), FEW, p=mass.double().numpy() / mass.double().sum()
                                     .numpy()))
    own, refs = estimator.hyp_part(mt, src), estimator.ref_part(mt)
    exact, every, some = [], [], []
    for hyp in range(len(mt)):
        first = estimator.pair_part(mt[hyp], mt) + own[hyp] + refs  # (R, H1)
        later = second(torch.tanh(first))  # (R, H2)
        exact.append(mass @ estimator.last(torch.tanh(later))[:, 0])
        mean = mass @ first
        every.append((mean, mass @ (first - mean).square(),
                      mass @ (later - mass @ later).square()))
        some.append((first[few].var(dim=0), later[few].var(dim=0)))
    mean, var_first, var_later = map(torch.stack, zip(*every, strict=True))
    few_first, few_later = map(torch.stack, zip(*some, strict=True))

    def score(first: Tensor | float, later: Tensor | float) -> Tensor:
        return estimator.last(through(second(through(mean, first)), later))[:, 0]

    return torch.stack(exact), iter([
        ("no variance: the first layer's mean", score(0.0, 0.0)),
        ("of the first layer, from all references", score(var_first, 0.0)),
        ("of both layers, from all references", score(var_first, var_later)),
        (f"of the first layer, from {FEW} references", score(few_first, 0.0)),
        (f"of both layers, from {FEW} references", score(few_first, few_later)),
        (f"of the first layer, from {FEW} references, the same for all hypotheses",
         score(few_first.mean(dim=0), 0.0)),
    ])


def through(mean: Tensor, variance: Tensor | float) -> Tensor:
    return torch.tanh(mean / (1 + math.pi / 2 * torch.as_tensor(variance)).sqrt())


if __name__ == "__main__":
    main()
