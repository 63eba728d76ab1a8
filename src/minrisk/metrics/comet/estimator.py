"""COMET's estimator, with its first layer split to minimise the cost per pair.

The input [mt, ref, mt*ref, |mt-ref|, mt*src, |mt-src|] first goes through a linear layer. The
blocks of mt and src are computed once per hypothesis, the block of ref once per reference; only
mt*ref and |mt-ref|, two blocks of six, are computed per pair. These two are symmetric: if the
references are the hypotheses, one product serves both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from minrisk.metrics.comet import fused
from minrisk.metrics.comet.pair_blocks import PairProgress, blocks

INPUT_BLOCKS = 6  # mt, ref, mt*ref, |mt-ref|, mt*src, |mt-src|
_MAX_SUMMED_REFERENCES = 16  # up to which a plain sum is faster than sorting


@dataclass(frozen=True)
class Side:
    """Texts on one side of the pairs, with their per-text parts of the first layer's output."""

    vectors: Tensor  # (N, D)
    as_hyp: Tensor  # (N, H1) part as hypotheses; empty if they are only references
    as_ref: Tensor  # (N, H1) part as references; empty if they are only hypotheses

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> Side:
        return Side(self.vectors[rows], self.as_hyp[rows], self.as_ref[rows])


@dataclass(frozen=True)
class Estimator:
    """The feed-forward network on sentence embeddings, with the first layer split."""

    per_hyp: Tensor  # (3D, H1) weights for mt, mt*src, |mt-src|
    per_ref: Tensor  # (D, H1) weights for ref
    per_pair: Tensor  # (2D, H1) weights for mt*ref, |mt-ref|
    bias: Tensor  # (H1,)
    activation: nn.Module
    middle: Sequence[nn.Linear]
    last: nn.Linear
    final: nn.Module
    fast: bool = True  # whether to use fused kernels, if supported

    @classmethod
    def of(cls, network: nn.Sequential, fast: bool = True) -> Estimator:
        layers = [module for module in network if isinstance(module, nn.Linear)]
        first, *middle, last = layers
        weight = first.weight.detach().T
        mt, ref, prod_ref, diff_ref, prod_src, diff_src = weight.chunk(INPUT_BLOCKS)
        final = nn.Identity() if network[-1] is last else network[-1]
        made = cls(torch.cat([mt, prod_src, diff_src]), ref.contiguous(),
                   torch.cat([prod_ref, diff_ref]), first.bias.detach(), network[1], middle, last,
                   final, fast)
        return made if not fused.not_supported_reasons(made) else replace(made, fast=False)

    def cast(self, *embeddings: Tensor) -> list[Tensor]:
        """Embeddings in the number format of the network."""
        return [own.to(self.bias.dtype) for own in embeddings]

    def hypotheses(self, mt: Tensor, src: Tensor) -> Side:
        return Side(mt, self.hyp_part(mt, src), mt.new_empty(len(mt), 0))

    def references(self, ref: Tensor) -> Side:
        return Side(ref, ref.new_empty(len(ref), 0), self.ref_part(ref))

    def both(self, texts: Tensor, src: Tensor) -> Side:
        return Side(texts, self.hyp_part(texts, src), self.ref_part(texts))

    def hyp_part(self, mt: Tensor, src: Tensor) -> Tensor:
        """(H, H1) the part of the first layer's output for hypothesis and source."""
        features = torch.cat([mt, mt * src, (mt - src).abs()], dim=1)
        return torch.addmm(self.bias, features, self.per_hyp)

    def ref_part(self, ref: Tensor) -> Tensor:
        """(R, H1) the part of the first layer's output for the reference."""
        return ref @ self.per_ref

    def pair_part(self, mt: Tensor, ref: Tensor) -> Tensor:
        """(..., H1) the part of the first layer's output for pairs; mt and ref are broadcast."""
        return torch.cat([mt * ref, (mt - ref).abs()], dim=-1) @ self.per_pair

    def finish(self, first: Tensor) -> Tensor:
        """Scores from the first layer's outputs (..., H1)."""
        hidden = first
        for layer in self.middle:
            hidden = layer(self.activation(hidden))
        scores: Tensor = self.final(self.last(self.activation(hidden)))
        return scores.squeeze(-1)

    def pair_scores(self, hyps: Side, refs: Side) -> Tensor:
        """(h, r) scores of every hypothesis against every reference."""
        if self.fast:
            every = _upper_pairs(hyps, refs, -len(hyps))  # this diagonal excludes nothing
            scores = fused.pair_scores(self, hyps.vectors, refs.vectors, every,
                                       (hyps.as_hyp, refs.as_ref))
            return scores.view(len(hyps), len(refs))
        shared = self.pair_part(hyps.vectors[:, None], refs.vectors[None])
        return self.finish(shared + hyps.as_hyp[:, None] + refs.as_ref[None])

    def listed_scores(self, rows: Side, columns: Side, pairs: Tensor) -> Tensor:
        """(2, P) scores of pairs (2, P) in both directions: row against column, and reverse."""
        ways = (rows.as_hyp, columns.as_ref), (rows.as_ref, columns.as_hyp)
        if self.fast:
            return fused.pair_scores(self, rows.vectors, columns.vectors, pairs, *ways)
        row, column = pairs
        shared = self.pair_part(_rows(rows.vectors, row), _rows(columns.vectors, column))
        return torch.stack([self.finish(shared + _rows(r, row) + _rows(c, column))
                            for r, c in ways])

    def pair_bytes(self) -> int:
        """Bytes of memory per pair that is scored in both directions."""
        widths = [self.per_ref.shape[1], *(layer.out_features for layer in self.middle)]
        numbers = 3 * self.per_pair.shape[0] + 5 * sum(widths)
        return numbers * self.per_pair.element_size()

    def utility(self, hyps: Side, refs: Side, mass: Tensor, pairs: int,
                progress: PairProgress) -> Tensor:
        """(H,) weighted sums of the scores against all references, `pairs` at a time."""
        total = mass.new_zeros(len(hyps))
        for rows, columns in blocks(len(hyps), len(refs), pairs):
            scores = self.pair_scores(hyps[rows], refs[columns])
            total[rows] += scores.to(mass.dtype) @ mass[columns]
            progress.advance(scores.numel())
        return total

    def symmetric_utility(self, texts: Side, mass: Tensor, pairs: int,
                          progress: PairProgress) -> Tensor:
        """(N,) the same with the texts as references, computing the features of each pair once."""
        total = mass.new_zeros(len(texts))
        for rows, columns in blocks(len(texts), len(texts), pairs, upper=True):
            left, right, offset = texts[rows], texts[columns], rows.start - columns.start
            listed = _upper_pairs(left, right, offset)
            scores = mass.new_zeros(2, len(left), len(right))
            scores[:, listed[0], listed[1]] = self.listed_scores(left, right, listed).to(mass.dtype)
            itself = scores[1].diagonal(offset).zero_()  # not twice for a text with itself
            total[rows] += scores[0] @ mass[columns]
            total[columns] += mass[rows] @ scores[1]
            progress.advance(2 * listed.shape[1] - len(itself))
        return total

    def expected_first(self, mt: Tensor, src: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
        """(H, H1) the exact mean of the first layer's output over weighted references."""
        return self.first_of_moments(mt, src, moments(mt, refs, weights))

    def first_of_moments(self, mt: Tensor, src: Tensor, moments: Tensor) -> Tensor:
        """(H, H1) the same mean from the moments of the references."""
        mean, apart = moments[:1].to(mt.dtype), moments[1:].to(mt.dtype)
        pair = torch.cat([mt * mean, apart], dim=1) @ self.per_pair
        return self.hyp_part(mt, src) + self.ref_part(mean) + pair


def _upper_pairs(rows: Side, columns: Side, offset: int) -> Tensor:
    """(2, P) row and column of the cells on and above a diagonal of a matrix."""
    return torch.triu_indices(len(rows), len(columns), offset, device=rows.vectors.device)


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    """(P, W) rows of a table (N, W); on a CPU twice as fast as indexing."""
    return table.index_select(0, rows)


def moments(mt: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
    """(1 + H, D) E[ref], then E|mt - ref| for each hypothesis; linear in the weights."""
    exact = torch.float32 if mt.device.type == "mps" else torch.float64
    mean = weights.to(exact) @ refs.to(exact)
    return torch.cat([mean[None], mean_distance(mt.to(exact), refs.to(exact), weights.to(exact))])


def mean_distance(mt: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
    """(H, D) E|mt - ref| over weighted references, in O((H + R) log R) per dimension.

    If the values of the references are sorted, those below and those above mt are two intervals,
    whose total weights and weighted sums are differences of prefix sums. Few references are summed
    directly.
    """
    if len(refs) <= _MAX_SUMMED_REFERENCES:
        total = torch.zeros_like(mt)
        for ref, weight in zip(refs, weights, strict=True):
            total += weight * (mt - ref).abs()
        return total
    values, order = refs.T.contiguous().sort(dim=1)  # (D, R)
    mass = weights[order]
    below = torch.nn.functional.pad(mass.cumsum(1), (1, 0))  # (D, R + 1)
    moment = torch.nn.functional.pad((mass * values).cumsum(1), (1, 0))
    points = mt.T.contiguous()  # (D, H)
    place = torch.searchsorted(values, points)
    left, left_moment = below.gather(1, place), moment.gather(1, place)
    right, right_moment = below[:, -1:] - left, moment[:, -1:] - left_moment
    distance = points * left - left_moment + right_moment - points * right
    return distance.T


def feed_forward(units: int, hidden: Sequence[int], activation: str,
                 final: str | None) -> nn.Sequential:
    """Linear layers with activations between them, and one score at the end."""
    layers: list[nn.Module] = []
    for width in hidden:
        # Identity replaces dropout, so that weights keep their names
        layers += [nn.Linear(units, width), _activation(activation), nn.Identity()]
        units = width
    layers.append(nn.Linear(units, 1))
    if final is not None:
        layers.append(_activation(final))
    return nn.Sequential(*layers)


def _activation(name: str) -> nn.Module:
    made: Callable[[], nn.Module] = getattr(nn, name.title())
    return made()
