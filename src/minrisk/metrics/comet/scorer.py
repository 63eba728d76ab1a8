"""COMET of pairs: the estimator on embeddings, by blocks that fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minrisk._core.arrays import Floats
from minrisk._core.weighted_rows import WeightedRows
from minrisk._torch.device import Runtime, upload
from minrisk.metrics.comet.blocks import blocks
from minrisk.metrics.comet.checkpoint import REFERENCELESS
from minrisk.metrics.comet.embedder import Embedder
from minrisk.metrics.comet.estimator import Estimator, moments
from minrisk.metrics.comet.pair_progress import PairProgress
from minrisk.metrics.comet.surrogate import Linearised
from minrisk.metrics.comet.tensors import array, means, rows_of, texts_of, vectors

_MEMORY_SHARE = 0.5  # of the free memory of a device that scoring may take
_BYTES_WITHOUT_ASKING = 1e9  # bytes for scoring that may be taken without asking how many are free
_MAX_PAIRS_PER_BLOCK = 1 << 16  # pairs at a time; more of them are not faster, and take memory


class Scorer:
    """Scores of pairs, and their sums."""

    def __init__(self, network: nn.Sequential, runtime: Runtime, expected: bool,
                 fast: bool = True, memory: float | None = None) -> None:
        self.estimator = Estimator.of(network, fast)
        self._runtime = runtime
        self._expected = expected
        self._memory = memory

    def embeddings(self, vectors: Floats) -> Tensor:
        return torch.as_tensor(vectors, dtype=self._runtime.dtype, device=self._runtime.device)

    def vectors(self, features: WeightedRows) -> Tensor:
        return vectors(features)

    @torch.inference_mode()
    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        mt, src = texts_of(hyps), texts_of(source)
        estimator, pairs = self.estimator, self._pairs(len(hyps) * len(refs))
        with self._runtime.precision():
            if self._expects(refs):
                found = [self._against(mt, refs, row, src) for row in range(len(refs))]
                return array(torch.stack(found, dim=1))
            left, right = estimator.hypotheses(mt, src), estimator.references(means(refs))
            result = np.empty((len(left), len(right)))
            for rows, columns in blocks(len(left), len(right), pairs):
                result[rows, columns] = array(
                    estimator.pair_scores(left[rows], right[columns])[0])
            return result

    @torch.inference_mode()
    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats:
        if self._expects(refs):
            return self.scores(hyps, refs, source) @ mass
        mt, src = texts_of(hyps), texts_of(source)
        weights = _weights(mass, mt.device)
        progress = PairProgress(len(hyps) * len(refs), mt.device.type == "cpu")
        estimator, pairs = self.estimator, self._pairs(len(hyps) * len(refs))
        with self._runtime.precision():
            if _same(hyps, refs):
                texts = estimator.both(mt, src)
                return array(estimator.symmetric_utility(texts, weights, pairs, progress))
            left, right = estimator.hypotheses(mt, src), estimator.references(means(refs))
            return array(estimator.utility(left, right, weights, pairs, progress))

    @torch.inference_mode()
    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Floats:
        """(1, D) the sum of the references; below it the moments that expected features need."""
        texts = rows_of(refs.base, refs.members)
        spread = _weights(refs.spread(weights), texts.device)
        mt = texts_of(hyps) if self._expected else texts[:0]
        found: Floats = moments(mt, texts, spread).cpu().numpy().astype(np.float64)
        return found

    @torch.inference_mode()
    def finalize(self, hyps: WeightedRows, statistics: Floats, source: WeightedRows) -> Floats:
        mt, src, estimator = texts_of(hyps), texts_of(source), self.estimator
        found = upload(statistics.astype(_precise(mt.device)), mt.device)
        with self._runtime.precision():
            if self._expected:
                return array(estimator.finish(estimator.first_of_moments(mt, src, found)))
            mean = estimator.references(found.to(mt.dtype))
            return array(estimator.pair_scores(estimator.hypotheses(mt, src), mean)[0, :, 0])

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows) -> Linearised:
        mt = texts_of(hyps)
        weights = torch.as_tensor(mass, dtype=mt.dtype, device=mt.device)
        return Linearised.of(self.estimator, mt, texts_of(refs), weights, texts_of(source),
                             self._runtime.precision)

    def _expects(self, refs: WeightedRows) -> bool:
        return self._expected and not refs.is_plain

    def _against(self, mt: Tensor, refs: WeightedRows, row: int, src: Tensor) -> Tensor:
        """(H,) against one aggregate, with the first layer's mean over its texts exact."""
        part = slice(refs.offsets[row], refs.offsets[row + 1])
        texts = rows_of(refs.base, refs.members[part])
        weights = _weights(refs.weights[part], texts.device)
        estimator = self.estimator
        return estimator.finish(estimator.expected_first(mt, src, texts, weights))

    def _pairs(self, count: int) -> int:
        """How many pairs fit into the memory that there is for them, of so many at most."""
        device, free = self._runtime.device, _BYTES_WITHOUT_ASKING
        wanted, each = min(_MAX_PAIRS_PER_BLOCK, count), self.estimator.pair_bytes()
        if self._memory is not None:
            free = self._memory * 1e9
        # asking how much is free takes its time
        elif device.type == "cuda" and wanted * each > _BYTES_WITHOUT_ASKING:
            free = torch.cuda.mem_get_info(device)[0] * _MEMORY_SHARE
        return max(1, min(wanted, int(free / each)))


class QualityScorer:
    """Quality of hypotheses, by their source alone."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._network = embedder.network(REFERENCELESS)

    @torch.inference_mode()
    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        mt = texts_of(hyps)
        src = texts_of(source).expand_as(mt)
        features = torch.cat([mt, src, mt * src, (mt - src).abs()], dim=1)
        with self._embedder.runtime.precision():
            return array(self._network(features)[:, 0])


def _weights(weights: Floats, device: torch.device) -> Tensor:
    return upload(weights.astype(_precise(device)), device)


def _precise(device: torch.device) -> type[np.floating[Any]]:
    """For sums over many pairs; Apple's GPUs have no doubles."""
    return np.float32 if device.type == "mps" else np.float64


def _same(hyps: WeightedRows, refs: WeightedRows) -> bool:
    return (hyps.base is refs.base and refs.is_plain
            and np.array_equal(hyps.members, refs.members))
