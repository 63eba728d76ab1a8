"""A linear surrogate of COMET's estimator: its first-order expansion after the first layer.

Let mu(h) be the exact mean of the first layer's outputs z(h, r) over all references, and f the rest
of the estimator. Near mu, f is approximately linear: g(h, r) = f(mu) + J(mu) . (z(h, r) - mu),
whose mean over the references is exactly f(mu). One backward pass gives J; then g costs one product
of embeddings per pair instead of the remaining layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minrisk._core.arrays import Floats
from minrisk._core.groups import WeightedRows
from minrisk.metrics.comet.estimator import Estimator
from minrisk.metrics.comet.pair_blocks import slices
from minrisk.metrics.comet.tensors import text_embeddings, to_numpy

Precision = Callable[[], AbstractContextManager[None]]  # sets the precision of matrix products

_MAX_DIFFERENCES = 1 << 26  # differences of embeddings in memory at a time


@dataclass(frozen=True)
class LinearSurrogate:
    """The linear surrogate of each hypothesis, as a function of the reference."""

    mt: Tensor  # (H, D)
    value: Tensor  # (H,) f(mu)
    offset: Tensor  # (H,) f(mu) - J . (mu - the hypothesis's part of z)
    per_ref: Tensor  # (H, D) J for ref and mt*ref, which are both linear in ref
    per_distance: Tensor  # (H, D) J for |mt-ref|
    precision: Precision

    @classmethod
    def of(cls, estimator: Estimator, mt: Tensor, refs: Tensor, mass: Tensor, src: Tensor,
           precision: Precision = nullcontext) -> LinearSurrogate:
        with precision():
            with torch.inference_mode():
                mu = estimator.expected_first(mt, src, refs, mass)
            value, slope = _value_and_slope(estimator, mu)
            with torch.inference_mode():
                pair = slope @ estimator.per_pair.float().T  # (H, 2D)
                product, distance = pair.chunk(2, dim=1)
                own = estimator.hyp_part(mt, src).float()
                return cls(mt.float(), value, value - (slope * (mu.float() - own)).sum(dim=1),
                           slope @ estimator.per_ref.float().T + product * mt.float(), distance,
                           precision)

    @property
    def mean(self) -> Floats:
        """(H,) mean of the surrogate over all references."""
        return to_numpy(self.value)

    @torch.inference_mode()
    def at(self, refs: WeightedRows) -> Floats:
        """(H, s) the surrogate at some references."""
        ref = text_embeddings(refs).float()
        with self.precision():
            linear = self.offset[:, None] + self.per_ref @ ref.T
            return to_numpy(linear + torch.cat(list(self._distances(ref))))

    def _distances(self, ref: Tensor) -> Iterator[Tensor]:
        for rows in slices(0, len(self.mt), max(1, _MAX_DIFFERENCES // max(1, ref.numel()))):
            apart = (self.mt[rows, None] - ref[None]).abs()  # (h, s, D)
            yield (apart @ self.per_distance[rows, :, None])[..., 0]


def _value_and_slope(estimator: Estimator, mu: Tensor) -> tuple[Tensor, Tensor]:
    """(H,) f(mu) and (H, H1) its gradient, in single precision."""
    point = mu.float().clone().requires_grad_()  # a copy, because mu is an inference tensor
    value = replace(estimator, middle=[deepcopy(layer).float() for layer in estimator.middle],
                    last=deepcopy(estimator.last).float()).finish(point)
    [slope] = torch.autograd.grad(value.sum(), point)
    return value.detach(), slope
