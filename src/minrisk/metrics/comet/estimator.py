"""COMET's estimator, with its first layer split so that pairs cost only what pairs must.

The input [mt, ref, mt*ref, |mt-ref|, mt*src, |mt-src|] meets a linear layer first. The blocks of
mt and src are one product per hypothesis, the block of ref one per reference; only mt*ref and
|mt-ref|, two blocks of six, are left for every pair. Those two are symmetric, so that where the
references are the hypotheses one product serves both pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

BLOCKS = 6  # mt, ref, mt*ref, |mt-ref|, mt*src, |mt-src|


@dataclass(frozen=True)
class Estimator:
    """The feed-forward network on top of sentence embeddings, ready for pairs."""

    per_hyp: Tensor  # (3D, H1) mt, mt*src, |mt-src|
    per_ref: Tensor  # (D, H1)
    per_pair: Tensor  # (2D, H1) mt*ref, |mt-ref|
    bias: Tensor  # (H1,)
    rest: nn.Module  # from the first activation to the score
    widths: tuple[int, ...]  # of the layers, for estimates of memory

    @classmethod
    def of(cls, network: nn.Sequential) -> Estimator:
        first = network[0]
        assert isinstance(first, nn.Linear)
        mt, ref, prod_ref, diff_ref, prod_src, diff_src = first.weight.detach().T.chunk(BLOCKS)
        widths = tuple(m.out_features for m in network if isinstance(m, nn.Linear))
        return cls(torch.cat([mt, prod_src, diff_src]), ref.contiguous(),
                   torch.cat([prod_ref, diff_ref]), first.bias.detach(), network[1:], widths)

    def hyp_part(self, mt: Tensor, src: Tensor) -> Tensor:
        """(H, H1) what the first layer makes of each hypothesis and the source."""
        return torch.cat([mt, mt * src, (mt - src).abs()], dim=1) @ self.per_hyp + self.bias

    def ref_part(self, ref: Tensor) -> Tensor:
        """(R, H1) what it makes of each reference."""
        return ref @ self.per_ref

    def pair_part(self, mt: Tensor, ref: Tensor) -> Tensor:
        """(h, R, H1) what it makes of each pair of hypothesis and reference."""
        left, right = mt[:, None], ref[None]
        return torch.cat([left * right, (left - right).abs()], dim=2) @ self.per_pair

    def finish(self, first: Tensor) -> Tensor:
        """Scores from the first layer's outputs, whatever their leading shape."""
        scores: Tensor = self.rest(first)
        return scores.squeeze(-1)

    def pair_bytes(self) -> int:
        """Of memory for one pair in flight."""
        numbers = self.per_pair.shape[0] + 2 * sum(self.widths)
        return numbers * self.per_pair.element_size()

    def each_row_block(self, mt: Tensor, ref: Tensor, src: Tensor,
                       pairs: int) -> Iterator[tuple[slice, Tensor]]:
        """Scores (h, R) of as many hypotheses at a time as keep within so many pairs."""
        hyp_part, ref_part = self.hyp_part(mt, src), self.ref_part(ref)
        for rows in _slices(len(mt), max(1, pairs // max(1, len(ref)))):
            shared = self.pair_part(mt[rows], ref)
            yield rows, self.finish(shared + hyp_part[rows, None] + ref_part[None])

    def symmetric_utility(self, texts: Tensor, mass: Tensor, src: Tensor, pairs: int) -> Tensor:
        """(N,) every text against every text, visiting each pair once."""
        hyp_part, ref_part = self.hyp_part(texts, src), self.ref_part(texts)
        total = mass.new_zeros(len(texts))
        side = max(1, int(pairs**0.5))
        blocks = list(_slices(len(texts), side))
        for i, rows in enumerate(blocks):
            for columns in blocks[i:]:
                shared = self.pair_part(texts[rows], texts[columns])  # (h, r, H1)
                scores = self.finish(shared + hyp_part[rows, None] + ref_part[None, columns])
                total[rows] += scores.to(mass.dtype) @ mass[columns]
                if columns != rows:
                    turned = self.finish(shared + ref_part[rows, None] + hyp_part[None, columns])
                    total[columns] += mass[rows] @ turned.to(mass.dtype)
        return total

    def expected_first(self, mt: Tensor, src: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
        """(H, H1) the mean of the first layer over weighted references, exactly."""
        mean = weights @ refs
        apart = mean_distance(mt, refs, weights)
        pair = torch.cat([mt * mean, apart], dim=1) @ self.per_pair
        return self.hyp_part(mt, src) + self.ref_part(mean[None]) + pair


def mean_distance(mt: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
    """(H, D) E|mt - ref| per dimension over weighted references, in O((H + R) log R) each.

    With the references' values sorted, those below mt and those above it are two intervals, whose
    weights and weighted values are differences of prefix sums.
    """
    values, order = refs.double().T.contiguous().sort(dim=1)  # (D, R)
    mass = weights.double()[order]
    below = torch.nn.functional.pad(mass.cumsum(1), (1, 0))  # (D, R + 1)
    moment = torch.nn.functional.pad((mass * values).cumsum(1), (1, 0))
    points = mt.double().T.contiguous()  # (D, H)
    place = torch.searchsorted(values, points)
    left, left_moment = below.gather(1, place), moment.gather(1, place)
    right, right_moment = below[:, -1:] - left, moment[:, -1:] - left_moment
    distance = points * left - left_moment + right_moment - points * right
    return distance.T.to(mt.dtype)


def feed_forward(units: int, hidden: Sequence[int], activation: str,
                 final: str | None) -> nn.Sequential:
    """Linear layers with activations between them, and one score at the end."""
    layers: list[nn.Module] = []
    for width in hidden:
        # where dropout was in training, so that weights keep their names
        layers += [nn.Linear(units, width), _activation(activation), nn.Identity()]
        units = width
    layers.append(nn.Linear(units, 1))
    if final is not None:
        layers.append(_activation(final))
    return nn.Sequential(*layers)


def _activation(name: str) -> nn.Module:
    made: Callable[[], nn.Module] = getattr(nn, name.title())
    return made()


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(i, min(i + size, count)) for i in range(0, count, size))
