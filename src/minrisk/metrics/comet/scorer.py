"""COMET of pairs: the estimator on embeddings, by tiles that fit into memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from minrisk.arrays import Floats, Ints
from minrisk.errors import InputError
from minrisk.metrics.comet.checkpoint import REFERENCELESS, REGRESSION
from minrisk.metrics.comet.embedder import Embedder
from minrisk.metrics.comet.estimator import Estimator, tiles
from minrisk.metrics.comet.patience import Patience
from minrisk.rows import WeightedRows

_SHARE = 0.5  # of the free memory of a device that scoring may take
_UNKNOWN = 1e9  # bytes for scoring where the free memory cannot be asked for
_ENOUGH = 1 << 16  # pairs at a time; more of them are not faster, and take memory


class Scorer:
    """Scores of pairs, and their sums."""

    def __init__(self, embedder: Embedder, fast: bool, expected: bool,
                 memory: float | None) -> None:
        self._embedder = embedder
        self._estimator = Estimator.of(embedder.network(REGRESSION), fast)
        self._expected = expected
        self._memory = memory

    @torch.inference_mode()
    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        mt, src = _texts(hyps), _texts(source)
        estimator = self._estimator
        with self._embedder.runtime.precision():
            if self._expects(refs):
                found = [self._against(mt, refs, row, src) for row in range(len(refs))]
                return _array(torch.stack(found, dim=1))
            left, right = estimator.hypotheses(mt, src), estimator.references(means(refs))
            result = np.empty((len(left), len(right)))
            for rows, columns in tiles(len(left), len(right), self._pairs()):
                result[rows, columns] = _array(
                    estimator.pair_scores(left[rows], right[columns])[0])
            return result

    @torch.inference_mode()
    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats:
        if self._expects(refs):
            return self.scores(hyps, refs, source) @ mass
        mt, src = _texts(hyps), _texts(source)
        weights = torch.as_tensor(mass, dtype=_precise(mt.device), device=mt.device)
        patience = Patience(len(hyps) * len(refs), mt.device.type == "cpu")
        estimator = self._estimator
        with self._embedder.runtime.precision():
            if _same(hyps, refs):
                texts = estimator.both(mt, src)
                return _array(estimator.symmetric_utility(texts, weights, self._pairs(), patience))
            left, right = estimator.hypotheses(mt, src), estimator.references(means(refs))
            return _array(estimator.utility(left, right, weights, self._pairs(), patience))

    def _expects(self, refs: WeightedRows) -> bool:
        return self._expected and not refs.is_plain

    def _against(self, mt: Tensor, refs: WeightedRows, row: int, src: Tensor) -> Tensor:
        """(H,) against one aggregate, with the first layer's mean over its texts exact."""
        part = slice(refs.offsets[row], refs.offsets[row + 1])
        texts = _rows(refs.base, refs.members[part])
        weights = torch.as_tensor(refs.weights[part], dtype=texts.dtype, device=texts.device)
        estimator = self._estimator
        return estimator.finish(estimator.expected_first(mt, src, texts, weights))

    def _pairs(self) -> int:
        """How many pairs fit into the memory that there is for them."""
        device, free = self._embedder.runtime.device, _UNKNOWN
        if self._memory is not None:
            free = self._memory * 1e9
        elif device.type == "cuda":
            free = torch.cuda.mem_get_info(device)[0] * _SHARE
        return max(1, min(_ENOUGH, int(free / self._estimator.pair_bytes())))


class Judge:
    """Quality of hypotheses, by their source alone."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._network = embedder.network(REFERENCELESS)

    @torch.inference_mode()
    def quality(self, hyps: WeightedRows, source: WeightedRows) -> Floats:
        mt = _texts(hyps)
        src = _texts(source).expand_as(mt)
        features = torch.cat([mt, src, mt * src, (mt - src).abs()], dim=1)
        with self._embedder.runtime.precision():
            return _array(self._network(features)[:, 0])


def vectors(features: WeightedRows) -> Floats:
    """(N, D) of texts and of averages."""
    return _array(means(features))


def _precise(device: torch.device) -> torch.dtype:
    """For sums over many pairs; Apple's GPUs have no doubles."""
    return torch.float32 if device.type == "mps" else torch.float64


def _texts(features: WeightedRows) -> Tensor:
    if not features.is_plain:
        raise InputError("COMET scores texts against references; "
                         "an aggregate cannot be the hypothesis")
    return _rows(features.base, features.members)


def means(features: WeightedRows) -> Tensor:
    """(N, D) the embedding of each row: of its text, or the mean of its texts."""
    if features.is_plain:
        return _rows(features.base, features.members)
    weights = torch.as_tensor(features.weights, dtype=features.base.dtype,
                              device=features.base.device)
    weighted = _rows(features.base, features.members) * weights[:, None]
    label = np.repeat(np.arange(len(features)), np.diff(features.offsets))
    means = weighted.new_zeros(len(features), weighted.shape[1])
    return means.index_add_(0, torch.as_tensor(label, device=weighted.device), weighted)


def _rows(base: Tensor, rows: Ints) -> Tensor:
    return base[torch.as_tensor(rows, device=base.device)]


def _same(hyps: WeightedRows, refs: WeightedRows) -> bool:
    return (hyps.base is refs.base and refs.is_plain
            and np.array_equal(hyps.members, refs.members))


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().cpu().numpy().astype(np.float64)
    return found
