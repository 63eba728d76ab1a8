"""What COMET would say if it were linear from its first layer on.

Around mu(h), the exact mean of the first layer's outputs z(h, r) over all references, the rest f of
the estimator is nearly a plane, g(h, r) = f(mu) + J(mu) . (z(h, r) - mu), whose mean over the
references is f(mu) exactly. One backward pass gives J; then g costs one product of embeddings a
pair, where the estimator needs its layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minrisk.arrays import Floats
from minrisk.metrics.comet.estimator import Estimator
from minrisk.metrics.comet.scorer import Scorer
from minrisk.rows import WeightedRows

_BLOCK = 1 << 26  # differences of embeddings that are held at a time


@dataclass(frozen=True)
class Linearised:
    """The plane of each hypothesis."""

    mt: Tensor  # (H, D)
    value: Tensor  # (H,) f(mu)
    offset: Tensor  # (H,) f(mu) - J . (mu - what z owes to the hypothesis alone)
    per_ref: Tensor  # (H, D) J's part for ref and for mt*ref, which are both linear in ref
    per_distance: Tensor  # (H, D) for |mt-ref|

    @classmethod
    def of(cls, estimator: Estimator, mt: Tensor, refs: Tensor, mass: Tensor,
           src: Tensor) -> Linearised:
        with torch.inference_mode():
            mu = estimator.expected_first(mt, src, refs, mass)
        value, slope = _value_and_slope(estimator, mu)
        with torch.inference_mode():
            pair = slope @ estimator.per_pair.float().T  # (H, 2D)
            product, distance = pair.chunk(2, dim=1)
            own = estimator.hyp_part(mt, src).float()
            return cls(mt.float(), value, value - (slope * (mu.float() - own)).sum(dim=1),
                       slope @ estimator.per_ref.float().T + product * mt.float(), distance)

    @property
    def mean(self) -> Floats:
        """(H,) of the plane over all references."""
        return _array(self.value)

    @torch.inference_mode()
    def at(self, refs: WeightedRows) -> Floats:
        """(H, s) of the plane at some of them."""
        ref = rows_of(refs).float()
        linear = self.offset[:, None] + self.per_ref @ ref.T
        return _array(linear + torch.cat(list(self._distances(ref))))

    def _distances(self, ref: Tensor) -> Iterator[Tensor]:
        size = max(1, _BLOCK // max(1, ref.numel()))
        for start in range(0, len(self.mt), size):
            rows = slice(start, start + size)
            apart = (self.mt[rows, None] - ref[None]).abs()  # (h, s, D)
            yield (apart @ self.per_distance[rows, :, None])[..., 0]


def linearised(scorer: Scorer, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
               source: WeightedRows) -> Linearised:
    mt = rows_of(hyps)
    weights = torch.as_tensor(mass, dtype=mt.dtype, device=mt.device)
    return Linearised.of(scorer._estimator, mt, rows_of(refs), weights, rows_of(source))


def rows_of(features: WeightedRows) -> Tensor:
    """(N, D) the embeddings of plain rows."""
    assert features.is_plain
    found: Tensor = features.base[torch.as_tensor(features.members, device=features.base.device)]
    return found


def _value_and_slope(estimator: Estimator, mu: Tensor) -> tuple[Tensor, Tensor]:
    """(H,) f(mu) and (H, H1) its gradient, in single precision."""
    point = mu.float().clone().requires_grad_()
    # copies, for gradients cannot pass through tensors of inference mode
    weights = {name: p.detach().float().clone() for name, p in estimator.rest.named_parameters()}
    value = torch.func.functional_call(estimator.rest, weights, (point,)).squeeze(-1)
    [slope] = torch.autograd.grad(value.sum(), point)
    return value.detach(), slope


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.double().cpu().numpy()
    return found
