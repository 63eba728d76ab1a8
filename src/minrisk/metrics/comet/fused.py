"""Pair scores in few passes over memory: matrix products with one fused kernel between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from minrisk._torch.device import triton_not_supported_reasons

if TYPE_CHECKING:
    from minrisk.metrics.comet.estimator import Estimator


def not_supported_reasons(estimator: Estimator) -> list[str]:
    """Reasons why this path cannot run; none if it can."""
    reasons = triton_not_supported_reasons(estimator.bias.device)
    if not isinstance(estimator.activation, nn.Tanh):
        reasons.append(f"the activation is {type(estimator.activation).__name__}, not Tanh")
    return reasons


def pair_scores(estimator: Estimator, rows: Tensor, columns: Tensor, pairs: Tensor,
                *ways: tuple[Tensor, Tensor]) -> Tensor:
    """(ways, P) scores as in the plain path; each way holds the per-row and per-column parts."""
    from minrisk.metrics.comet import kernels

    shared = kernels.pair_features(rows, columns, pairs) @ estimator.per_pair
    hidden = kernels.first_activation(shared, pairs, *ways)
    if not estimator.middle:
        return _final(estimator, estimator.last(hidden).squeeze(-1))
    for layer in estimator.middle[:-1]:
        hidden = estimator.activation(layer(hidden))
    hidden = estimator.middle[-1](hidden)
    last = estimator.last
    scores = kernels.last_layer(hidden.flatten(0, 1), last.weight[0], last.bias)
    return _final(estimator, scores.view(hidden.shape[:2]))


def _final(estimator: Estimator, scores: Tensor) -> Tensor:
    found: Tensor = estimator.final(scores)
    return found
