"""COMET scores of pairs, in blocks that fit into memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from minrisk._core.arrays import Floats
from minrisk._core.groups import WeightedRows
from minrisk._torch.device import InDtype, Runtime
from minrisk.metrics.comet.checkpoint import REFERENCELESS
from minrisk.metrics.comet.embedder import Embedder
from minrisk.metrics.comet.estimator import Estimator, Side, moments
from minrisk.metrics.comet.pair_blocks import PairProgress, blocks
from minrisk.metrics.comet.surrogate import LinearSurrogate
from minrisk.metrics.comet.tensors import (
    cast_for,
    embedding_rows,
    mean_embeddings,
    text_embeddings,
    to_numpy,
    upload_for_sums,
    vectors,
)

_MEMORY_SHARE = 0.5  # share of the free memory for scoring
_UNQUERIED_BYTES = 1e9  # bytes up to which the free memory is not queried
_MAX_PAIRS_PER_BLOCK = 1 << 16  # larger blocks are not faster
_MAX_PAIRS_ON_CPU = 1 << 11  # memory of larger blocks is not reused, which causes page faults


class TorchScorer:
    """COMET's estimator on embeddings, in torch."""

    def __init__(self, network: InDtype[nn.Sequential], runtime: Runtime, expected: bool,
                 fast: bool = True, memory: float | None = None) -> None:
        self._estimator = InDtype(runtime, lambda: Estimator.of(network.get(), fast))
        self._runtime = runtime
        self._expected = expected
        self._memory = memory

    def embeddings(self, vectors: Floats) -> Tensor:
        return torch.as_tensor(vectors, dtype=self._runtime.dtype, device=self._runtime.device)

    def vectors(self, features: WeightedRows) -> Tensor:
        return vectors(features)

    @property
    def estimator(self) -> Estimator:
        return self._estimator.get()

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        return self._runtime.checked(lambda: self._scores(hyps, refs, source), _are_finite)

    @torch.inference_mode()
    def _scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        estimator = self.estimator
        mt, src = estimator.cast(text_embeddings(hyps), text_embeddings(source))
        pairs = self._pairs_per_block(estimator, len(hyps) * len(refs))
        with self._runtime.precision():
            if self._averages_first_layer(refs):
                found = [_average_scores(estimator, mt, refs, row, src)
                         for row in range(len(refs))]
                return to_numpy(torch.stack(found, dim=1))
            left, right = estimator.hypotheses(mt, src), self._references(estimator, refs)
            result = np.empty((len(left), len(right)))
            for rows, columns in blocks(len(left), len(right), pairs):
                result[rows, columns] = to_numpy(estimator.pair_scores(left[rows], right[columns]))
            return result

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats:
        if self._averages_first_layer(refs):
            return self.scores(hyps, refs, source) @ mass
        return self._runtime.checked(lambda: self._utility(hyps, refs, mass, source), _are_finite)

    @torch.inference_mode()
    def _utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                 source: WeightedRows) -> Floats:
        with self._runtime.precision():
            estimator = self.estimator
            mt, src = estimator.cast(text_embeddings(hyps), text_embeddings(source))
            weights = upload_for_sums(mass, mt.device)
            progress = PairProgress(len(hyps) * len(refs), mt.device.type == "cpu")
            pairs = self._pairs_per_block(estimator, len(hyps) * len(refs))
            if _same_texts(hyps, refs):
                texts = estimator.both(mt, src)
                found = estimator.symmetric_utility(texts, weights, pairs, progress)
            else:
                left, right = estimator.hypotheses(mt, src), self._references(estimator, refs)
                found = estimator.utility(left, right, weights, pairs, progress)
        return to_numpy(found)  # waits outside the lock, so that another thread can launch work

    @torch.inference_mode()
    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Floats:
        """(1, D) sum of the references, followed by the moments that "expected" needs."""
        texts = embedding_rows(refs.base, refs.members)
        spread = upload_for_sums(refs.spread(weights), texts.device)
        mt = text_embeddings(hyps) if self._expected else texts[:0]
        found: Floats = moments(mt, texts, spread).cpu().numpy().astype(np.float64)
        return found

    def finalize(self, hyps: WeightedRows, statistics: Floats, source: WeightedRows) -> Floats:
        return self._runtime.checked(lambda: self._finalize(hyps, statistics, source), _are_finite)

    @torch.inference_mode()
    def _finalize(self, hyps: WeightedRows, statistics: Floats, source: WeightedRows) -> Floats:
        estimator = self.estimator
        mt, src = estimator.cast(text_embeddings(hyps), text_embeddings(source))
        found = upload_for_sums(statistics, mt.device)
        with self._runtime.precision():
            if self._expected:
                return to_numpy(estimator.finish(estimator.first_of_moments(mt, src, found)))
            mean = estimator.references(found.to(mt.dtype))
            return to_numpy(estimator.pair_scores(estimator.hypotheses(mt, src), mean)[:, 0])

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows) -> LinearSurrogate:
        return self._runtime.checked(lambda: self._surrogate(hyps, refs, mass, source),
                                     lambda made: _are_finite(made.mean))

    def _surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                   source: WeightedRows) -> LinearSurrogate:
        estimator = self.estimator
        mt, ref, src = estimator.cast(*map(text_embeddings, (hyps, refs, source)))
        weights = upload_for_sums(mass, mt.device)
        return LinearSurrogate.of(estimator, mt, ref, weights, src, self._runtime.precision)

    def _references(self, estimator: Estimator, refs: WeightedRows) -> Side:
        return estimator.references(*estimator.cast(mean_embeddings(refs)))

    def _averages_first_layer(self, refs: WeightedRows) -> bool:
        return self._expected and not refs.is_plain

    def _pairs_per_block(self, estimator: Estimator, count: int) -> int:
        """The number of pairs whose features fit into memory, at most `count`."""
        device, free = self._runtime.device, _UNQUERIED_BYTES
        most = _MAX_PAIRS_ON_CPU if device.type == "cpu" else _MAX_PAIRS_PER_BLOCK
        wanted, each = min(most, count), estimator.pair_bytes()
        if self._memory is not None:
            free = self._memory * 1e9
        # querying the free memory takes time
        elif device.type == "cuda" and wanted * each > _UNQUERIED_BYTES:
            free = torch.cuda.mem_get_info(device)[0] * _MEMORY_SHARE
        return max(1, min(wanted, int(free / each)))


class QualityScorer:
    """A reference-free COMET model on embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._network = embedder.network(REFERENCELESS)

    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        return self._embedder.runtime.checked(lambda: self._quality(hyps, source), _are_finite)

    @torch.inference_mode()
    def _quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        network = self._network.get()
        mt = text_embeddings(hyps)
        src = text_embeddings(source).expand_as(mt)
        features = torch.cat([mt, src, mt * src, (mt - src).abs()], dim=1)
        with self._embedder.runtime.precision():
            return to_numpy(network(cast_for(network, features))[:, 0])


def _average_scores(estimator: Estimator, mt: Tensor, refs: WeightedRows, row: int,
                    src: Tensor) -> Tensor:
    """(H,) scores against one aggregate, with the exact mean of the first layer."""
    part = slice(refs.offsets[row], refs.offsets[row + 1])
    texts = embedding_rows(refs.base, refs.members[part])
    weights = upload_for_sums(refs.weights[part], texts.device)
    return estimator.finish(estimator.expected_first(mt, src, texts, weights))


def _are_finite(numbers: Floats) -> bool:
    return bool(np.isfinite(numbers).all())


def _same_texts(hyps: WeightedRows, refs: WeightedRows) -> bool:
    return (hyps.base is refs.base and refs.is_plain
            and np.array_equal(hyps.members, refs.members))
