"""Trains the metric `mqm` on expert judgements.

usage: python experiments/mqm/train.py [--validate]

Writes the weights into the package. With --validate it writes nothing: some sources of the training
sets are held back, and it prints how well they are judged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from data import ROOT, Judgement, sides, training_sets
from safetensors.torch import save_file
from scoring import accuracy, by_source, distinct, spearman, with_interval
from torch import Tensor, nn
from worse import worsened

WEIGHTS = ROOT / "src" / "minrisk" / "data" / "mqm.safetensors"
HIDDEN = 64  # more takes longer to score, and judged no better
SCALE = 5.0  # of embeddings while training, which have length 1
DROPOUT = 0.3
RANKING = 1.0  # how much the order within a source counts beside the judgements
WORSENED = 0.1  # how much a translation that was made worse counts beside a judged one
EPOCHS, SOURCES, RATE, DECAY = 3, 32, 1e-3, 30.0
HELD = 5  # one in so many sources is held back for validation
# one entry: safetensors writes several in any order, and the file should be the same each time
METADATA = {"about": "metric mqm of minrisk, Apache-2.0; its card is experiments/mqm/README.md"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--validate", action="store_true")
    parts = [distinct(rows) for rows in training_sets()]
    if parser.parse_args().validate:
        validate(*parts)
    else:
        save(train(parts))


def train(parts: Sequence[Sequence[Judgement]], seed: int = 0) -> nn.Sequential:
    """A network on scaled embeddings, whose scores are judgements of mean 0 and deviation 1."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # so that sums are the same wherever it runs
    rng = np.random.default_rng(seed)
    rows, targets, weights = examples(parts, rng)
    inputs = features(rows)
    network = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.Tanh(), nn.Dropout(DROPOUT),
                            nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    plan = list(batches(by_source(rows), rng))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=len(plan))
    for batch in plan:
        places = np.concatenate(batch)
        source = torch.from_numpy(np.repeat(np.arange(len(batch)), [own.size for own in batch]))
        loss = loss_of(network(inputs[places])[:, 0], targets[places], weights[places], source)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def examples(parts: Sequence[Sequence[Judgement]],
             rng: np.random.Generator) -> tuple[list[Judgement], Tensor, Tensor]:
    """Judged and worsened translations, their targets and how much each counts."""
    rows: list[Judgement] = []
    targets, weights = [], []
    for judged in parts:
        spoilt = worsened(judged, rng)
        rows += [*judged, *spoilt]
        # the difference between a penalty of 0 and one of 1 is that between 1 and 3
        values = -np.log1p([-row.score for row in (*judged, *spoilt)])
        scale = values[:len(judged)]
        targets.append((values - scale.mean()) / scale.std())
        weights.append(np.repeat([1, WORSENED], [len(judged), len(spoilt)]))
    return rows, *(torch.tensor(np.concatenate(v), dtype=torch.float32) for v in (targets, weights))


def features(rows: Sequence[Judgement]) -> Tensor:
    mt, ref, src = (SCALE * torch.from_numpy(vectors) for vectors in sides(rows))
    return torch.cat([mt, ref, mt * ref, (mt - ref).abs(), mt * src, (mt - src).abs()], dim=1)


def batches(sources: list[np.ndarray], rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    for _ in range(EPOCHS):
        order = rng.permutation(len(sources))
        for start in range(0, len(order), SOURCES):
            yield [sources[place] for place in order[start:start + SOURCES]]


def loss_of(scores: Tensor, targets: Tensor, weights: Tensor, source: Tensor) -> Tensor:
    """Squared errors; and of two of a source, the better one should score higher."""
    squared = (weights * (scores - targets)**2).sum() / weights.sum()
    better = (targets[:, None] - targets).clamp(max=2)
    pairs = (source[:, None] == source) & (better > 0)
    both = (weights[:, None] * weights)[pairs]
    wrong = nn.functional.softplus(scores - scores[:, None])[pairs] * better[pairs]
    return squared + RANKING * (both * wrong).sum() / both.sum()


def save(network: nn.Sequential) -> None:
    """With the scale in the weights, so that embeddings of length 1 go in."""
    weights = {f"estimator.ff.{name}": values for name, values in network.state_dict().items()}
    blocks = weights["estimator.ff.0.weight"].view(HIDDEN, 6, -1)
    blocks *= SCALE
    blocks[:, [2, 4]] *= SCALE  # products have it twice
    save_file(weights, WEIGHTS, METADATA)
    WEIGHTS.chmod(0o644)  # safetensors makes it the owner's alone


def validate(german: Sequence[Judgement], russian: Sequence[Judgement]) -> None:
    """On German sources that were held back, and on a language that was not seen at all."""
    held = {german[places[0]].source for places in by_source(german)[::HELD]}
    network = train([[row for row in german if row.source not in held]])
    for rows in ([row for row in german if row.source in held], russian):
        with torch.inference_mode():
            scores = network(features(rows))[:, 0].numpy()
        print("Spearman", with_interval(spearman, scores, rows),
              "accuracy", with_interval(accuracy, scores, rows))


if __name__ == "__main__":
    main()
