"""COMET's estimator in NumPy: the counterpart of the modules estimator, scorer and surrogate.

For small models with tanh, so that they need no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats
from minrisk._core.groups import WeightedRows
from minrisk.metrics.comet.pair_blocks import PairProgress, blocks, slices

Array = npt.NDArray[Any]  # float32
Layer = tuple[Array, Array]  # (in, out) weight and (out,) bias

_PAIRS_PER_BLOCK = 1 << 9  # pairs at a time, so that features stay in the CPU cache


class NumpyScorer:
    """COMET's estimator on embeddings, in NumPy."""

    def __init__(self, weights: Mapping[str, Array], expected: bool) -> None:
        (first, self._bias), *self._later_layers = layers(weights)
        mt, self._per_ref, prod_ref, diff_ref, prod_src, diff_src = np.split(first, 6)
        self._per_hyp = np.concatenate([mt, prod_src, diff_src])  # (3D, H1)
        self._per_pair = np.concatenate([prod_ref, diff_ref])  # (2D, H1)
        self._expected = expected

    def embeddings(self, vectors: Floats) -> Array:
        return vectors.astype(np.float32)

    def vectors(self, features: WeightedRows) -> Floats:
        return _mean_embeddings(features).astype(np.float64)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: WeightedRows) -> Floats:
        mt = _text_embeddings(hyps)
        own = self._hyp_part(mt, _text_embeddings(source))
        if self._expected and not refs.is_plain:
            firsts = [own + self._expected_pair_part(mt, moments(mt, *_members(refs, row)))
                      for row in range(len(refs))]
            return self._finish(np.stack(firsts, axis=1)).astype(np.float64)
        return self._pair_scores(mt, own, _mean_embeddings(refs))

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: WeightedRows) -> Floats:
        return self.scores(hyps, refs, source) @ mass

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows, weights: Floats) -> Floats:
        """(1, D) sum of the references, followed by the moments that "expected" needs."""
        texts = refs.base[refs.members]
        mt = _text_embeddings(hyps) if self._expected else texts[:0]
        return moments(mt, texts, refs.spread(weights))

    def finalize(self, hyps: WeightedRows, statistics: Floats, source: WeightedRows) -> Floats:
        mt = _text_embeddings(hyps)
        own = self._hyp_part(mt, _text_embeddings(source))
        if self._expected:
            return self._finish(own + self._expected_pair_part(mt, statistics)).astype(np.float64)
        return self._pair_scores(mt, own, statistics.astype(np.float32))[:, 0]

    def surrogate(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                  source: WeightedRows) -> NumpyLinearSurrogate:
        mt, ref = _text_embeddings(hyps), _text_embeddings(refs)
        rest = self._expected_pair_part(mt, moments(mt, ref, mass))
        value, slope = self._value_and_slope(self._hyp_part(mt, _text_embeddings(source)) + rest)
        product, distance = np.split(slope @ self._per_pair.T, 2, axis=1)
        per_ref = slope @ self._per_ref.T + product * mt
        offset = value - (slope * rest).sum(axis=1)
        return NumpyLinearSurrogate(mt, value, offset, per_ref, distance)

    def _hyp_part(self, mt: Array, src: Array) -> Array:
        """(H, H1) the part of the first layer's output for hypothesis and source."""
        features = np.concatenate([mt, mt * src, np.abs(mt - src)], axis=1)
        part: Array = features @ self._per_hyp + self._bias
        return part

    def _pair_part(self, mt: Array, ref: Array) -> Array:
        """(h, r, H1) the part of the first layer's output for pairs."""
        left, right = mt[:, None], ref[None]
        features = np.empty((len(mt), len(ref), len(self._per_pair)), mt.dtype)
        product, distance = np.split(features, 2, axis=2)  # filled in place to avoid copies
        np.multiply(left, right, out=product)
        np.abs(np.subtract(left, right, out=distance), out=distance)
        part: Array = features @ self._per_pair
        return part

    def _pair_scores(self, mt: Array, own: Array, ref: Array) -> Floats:
        """(H, R) scores from the hypotheses, their parts of the first layer, and the references."""
        theirs = ref @ self._per_ref
        # mt*ref and |mt-ref| are symmetric: with equal texts, one block serves both directions
        symmetric = np.array_equal(mt, ref)
        progress = PairProgress(len(mt) * len(ref), on_cpu=True)
        matrix = np.empty((len(mt), len(ref)))
        for rows, columns in blocks(len(mt), len(ref), _PAIRS_PER_BLOCK, upper=symmetric):
            shared = self._pair_part(mt[rows], ref[columns])
            matrix[rows, columns] = self._finish(shared + own[rows, None] + theirs[columns])
            if symmetric:
                back = self._finish(shared + theirs[rows, None] + own[columns])
                matrix[columns, rows] = back.T
            progress.advance(_cells(rows, columns, symmetric))
        return matrix

    def _expected_pair_part(self, mt: Array, moments: Floats) -> Array:
        """(H, H1) the mean of the first layer's parts for references and pairs."""
        mean, apart = moments[:1].astype(np.float32), moments[1:].astype(np.float32)
        pair = np.concatenate([mt * mean, apart], axis=1)
        rest: Array = mean @ self._per_ref + pair @ self._per_pair
        return rest

    def _finish(self, first: Array) -> Array:
        """Scores from the first layer's outputs (..., H1)."""
        hidden = first
        for weight, bias in self._later_layers:
            hidden = np.tanh(hidden) @ weight + bias
        return hidden[..., 0]

    def _value_and_slope(self, first: Array) -> tuple[Array, Array]:
        """(H,) the scores and (H, H1) their gradient."""
        activations = []
        hidden = first
        for weight, bias in self._later_layers:
            activations.append(np.tanh(hidden))
            hidden = activations[-1] @ weight + bias
        slope = np.ones_like(hidden)
        for (weight, _), tanh in zip(self._later_layers[::-1], activations[::-1], strict=True):
            slope = slope @ weight.T * (1 - tanh**2)
        return hidden[:, 0], slope


@dataclass(frozen=True)
class NumpyLinearSurrogate:
    """The counterpart of `surrogate.LinearSurrogate`."""

    mt: Array  # (H, D)
    value: Array  # (H,)
    offset: Array  # (H,)
    per_ref: Array  # (H, D)
    per_distance: Array  # (H, D)

    @property
    def mean(self) -> Floats:
        return self.value.astype(np.float64)

    def at(self, refs: WeightedRows) -> Floats:
        ref = _text_embeddings(refs)
        linear: Floats = np.float64(self.offset[:, None]) + self.per_ref @ ref.T
        for rows in slices(0, len(self.mt), max(1, _PAIRS_PER_BLOCK // max(1, len(ref)))):
            apart = np.abs(self.mt[rows, None] - ref[None])  # (h, s, D)
            linear[rows] += (apart @ self.per_distance[rows, :, None])[..., 0]
        return linear


def _cells(rows: slice, columns: slice, symmetric: bool) -> int:
    """The number of cells of a block and, in a symmetric matrix, of its mirror image."""
    size: int = (rows.stop - rows.start) * (columns.stop - columns.start)
    common: int = max(0, min(rows.stop, columns.stop) - max(rows.start, columns.start))
    return 2 * size - common**2 if symmetric else size


def moments(mt: Array, refs: Array, weights: Floats) -> Floats:
    """(1 + H, D) E[ref], then E|mt - ref| for each hypothesis; linear in the weights."""
    return np.concatenate([(weights @ refs.astype(np.float64))[None],
                           mean_distance(mt, refs, weights)])


def mean_distance(mt: Array, refs: Array, weights: Floats) -> Floats:
    """(H, D) E|mt - ref| per dimension over weighted references, from sorted values."""
    order = np.argsort(refs, axis=0)
    values = np.take_along_axis(refs, order, axis=0).astype(np.float64)  # (R, D)
    mass = weights[order]
    below = _sums_before(mass)  # (R + 1, D)
    moment = _sums_before(mass * values)
    points = mt.astype(np.float64)
    place = np.stack([np.searchsorted(*column) for column in zip(values.T, points.T, strict=True)],
                     axis=1)  # (H, D)
    left, left_moment = (np.take_along_axis(sums, place, axis=0) for sums in (below, moment))
    # total minus those below
    right, right_moment = below[-1] - left, moment[-1] - left_moment
    distance: Floats = points * left - left_moment + right_moment - points * right
    return distance


def _sums_before(values: Floats) -> Floats:
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])


def layers(weights: Mapping[str, Array]) -> list[Layer]:
    """The layers in order, from the parameter names of a torch `Sequential`."""
    places = sorted({int(name.split(".")[0]) for name in weights})
    return [(np.ascontiguousarray(weights[f"{place}.weight"].T), weights[f"{place}.bias"])
            for place in places]


def _text_embeddings(features: WeightedRows) -> Array:
    """(N, D) the embedding of each row, which must be a text."""
    features.check_texts()
    embeddings: Array = features.base[features.members]
    return embeddings


def _members(features: WeightedRows, row: int) -> tuple[Array, Floats]:
    """The embeddings of the texts of one row, and their weights."""
    part = slice(features.offsets[row], features.offsets[row + 1])
    return features.base[features.members[part]], features.weights[part]


def _mean_embeddings(features: WeightedRows) -> Array:
    """(N, D) the embedding of each row: that of its text, or the mean over its texts."""
    if features.is_plain:
        return _text_embeddings(features)
    parts = (_members(features, row) for row in range(len(features)))
    return np.stack([weights.astype(np.float32) @ texts for texts, weights in parts])
