"""A metric of COMET's form on frozen embeddings, trained for a minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from data import TESTING, TRAINING, judgements
from torch import Tensor, nn

from minrisk import Groups
from minrisk._core.groups import WeightedRows
from minrisk.metrics.comet.estimator import Estimator, feed_forward
from minrisk.metrics.comet.pair_blocks import slices
from minrisk.metrics.comet.surrogate import LinearSurrogate
from minrisk.metrics.comet.tensors import text_embeddings

_DIMENSIONS = 512
_PAIRS = 1 << 13  # scored at a time


class Frozen:
    """COMET's estimator over embeddings that were made before."""

    name = "frozen"
    needs_source = True

    def __init__(self, vectors: dict[str, np.ndarray], estimator: Estimator,
                 expected: bool = True) -> None:
        self._vectors = vectors
        self._estimator = estimator
        self._base: Tensor | None = None  # of the segment that the next is known of
        self._known: dict[tuple[bytes, ...], Any] = {}
        self._expected = expected  # the first layer's mean, not (the paper's) of embeddings

    def features(self, texts: Sequence[str]) -> WeightedRows:
        base = torch.as_tensor(np.stack([self._vectors[text] for text in texts]))
        return WeightedRows.plain(self, base, np.arange(len(texts)))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    @torch.inference_mode()
    def scores(self, hyps: WeightedRows, refs: WeightedRows,
               source: WeightedRows | None = None) -> np.ndarray:
        if refs.is_plain:
            pairs = self._once(refs.base, (), lambda: self._pairs(refs.base, refs.base,
                                                                  text_embeddings(source)))
            return pairs[np.ix_(hyps.members, refs.members)]
        key = tuple(x.tobytes() for x in (hyps.members, refs.offsets, refs.members, refs.weights))
        return self._once(refs.base, key, lambda: self._averages(hyps, refs, source))

    def _averages(self, hyps: WeightedRows, refs: WeightedRows,
                  source: WeightedRows) -> np.ndarray:
        mt, src = text_embeddings(hyps), text_embeddings(source)
        parts = [_members(refs, row) for row in range(len(refs))]
        if not self._expected:
            return self._pairs(mt, torch.stack([w @ texts for texts, w in parts]), src)
        firsts = [self._estimator.expected_first(mt, src, *part) for part in parts]
        return self._estimator.finish(torch.stack(firsts, dim=1)).double().numpy()

    def vectors(self, features: WeightedRows) -> np.ndarray:
        return text_embeddings(features).double().numpy()

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: np.ndarray,
                  source: WeightedRows | None = None) -> LinearSurrogate:
        weights = torch.as_tensor(mass, dtype=torch.float32)
        key = tuple(x.tobytes() for x in (hyps.members, refs.members, mass))
        return self._once(refs.base, key, lambda: LinearSurrogate.of(
            self._estimator, text_embeddings(hyps), text_embeddings(refs), weights,
            text_embeddings(source)))

    def _once(self, base: Tensor, key: tuple[bytes, ...], make: Callable[[], Any]) -> Any:
        """Many methods ask for the same of a segment's texts."""
        if self._base is not base:
            self._base, self._known = base, {}
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _pairs(self, mt: Tensor, ref: Tensor, src: Tensor) -> np.ndarray:
        hyps, refs = self._estimator.hypotheses(mt, src), self._estimator.references(ref)
        blocks = [self._estimator.pair_scores(hyps[rows], refs)
                  for rows in slices(0, len(hyps), max(1, _PAIRS // len(refs)))]
        return torch.cat(blocks).double().numpy()


def train(vectors: dict[str, np.ndarray], hidden: Sequence[int], seed: int,
          epochs: int) -> tuple[Estimator, float]:
    """The estimator, and its rank correlation with judgements of other texts."""
    torch.manual_seed(seed)
    network = feed_forward(6 * _DIMENSIONS, hidden, "Tanh", None)
    inputs, targets = _examples(vectors, *TRAINING)
    targets = (targets - targets.mean()) / targets.std()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(64):
            loss = nn.functional.mse_loss(network(inputs[rows])[:, 0], targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    inputs, targets = _examples(vectors, *TESTING)
    with torch.inference_mode():
        found = network(inputs)[:, 0]
    return Estimator.of(network.eval()), _spearman(found.numpy(), targets.numpy())


def _examples(vectors: dict[str, np.ndarray], name: str, sources: int) -> tuple[Tensor, Tensor]:
    records = judgements(name, sources)
    mt, ref, src = (torch.as_tensor(np.stack([vectors[r[field]] for r in records]))
                    for field in ("hypothesis", "reference", "source"))
    inputs = torch.cat([mt, ref, mt * ref, (mt - ref).abs(), mt * src, (mt - src).abs()], dim=1)
    return inputs, torch.tensor([r["score"] for r in records])


def _members(refs: WeightedRows, row: int) -> tuple[Tensor, Tensor]:
    part = slice(refs.offsets[row], refs.offsets[row + 1])
    return refs.base[refs.members[part]], torch.as_tensor(refs.weights[part], dtype=torch.float32)


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
