"""Which tokens may be drawn: transformers' truncations, in its order and with its meaning.

Each of them keeps the best tokens of a row, however many, so that all work on a list of tokens
that is sorted and, where that is enough, short: the vocabulary is passed over twice, not ten times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minrisk.errors import InputError

_TIES = 32  # tokens as likely as the last of the top k, for which there is room in a short list
_SHORT = 256  # tokens of a first list, where the options say nothing about how many they keep
# below 1 by more than what adding a row's number rounds away
_LARGEST = 1 - 2.0**-32

Cut = Callable[[Tensor], Tensor]  # log-probabilities (R, K), best first -> those to keep


@dataclass(frozen=True)
class Candidates:
    """The tokens of each row that may be drawn, with their log-probabilities."""

    logs: Tensor  # (R, K), -inf for what may not be drawn
    tokens: Tensor | None  # (R, K); the whole vocabulary in its order if None

    def draw(self, rows: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """A token, and its log-probability, for every pair of a row and a number from [0, 1)."""
        count, width = self.logs.shape
        steps = self.logs.exp().cumsum(1, dtype=torch.float64)
        steps /= steps[:, -1:].clone()
        # one ladder for all rows: row r climbs from r to r + 1
        steps += torch.arange(count, device=steps.device)[:, None]
        heights = rows + uniforms.clamp(max=_LARGEST)
        places = torch.searchsorted(steps.view(-1), heights, right=True)
        logs = self.logs.reshape(-1)[places]
        if self.tokens is None:
            return places - rows * width, logs
        return self.tokens.reshape(-1)[places], logs


@dataclass(frozen=True)
class Truncation:
    """Nothing is cut off unless told; with no field changed this is ancestral sampling."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    epsilon: float = 0.0
    eta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise InputError(f"temperature {self.temperature}; more than 0 is wanted "
                             "(greedy search is beams = 1)")
        if self.top_k < 0:
            raise InputError(f"top_k {self.top_k}; a number of tokens is wanted, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p {self.top_p}; more than 0 is wanted, and at most 1")
        for name in ("min_p", "epsilon", "eta"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}; from 0 to below 1 is wanted")

    def __call__(self, scores: Tensor, total: Tensor) -> Candidates:
        """What may be drawn, from scores (R, V) and the logarithms (R,) of their exponentials' sum.
        """
        if self.temperature != 1:
            scores = scores / self.temperature
            total = scores.logsumexp(1)
        cuts = list(self._cuts())
        if not cuts:
            return Candidates(scores - total[:, None], None)
        width = min(self._width(), scores.shape[1])
        candidates = _cut(scores, total, width, cuts)
        if candidates is None:
            candidates = _cut(scores, total, scores.shape[1], cuts)
        assert candidates is not None
        return candidates

    def _cuts(self) -> Iterator[Cut]:
        """In the order in which transformers applies them."""
        if self.top_k:
            yield lambda logs: logs >= logs[:, min(self.top_k, logs.shape[1]) - 1, None]
        if self.top_p < 1:
            yield lambda logs: logs.exp().cumsum(1) - logs.exp() < self.top_p
        if self.min_p:
            yield lambda logs: logs >= logs[:, :1] + math.log(self.min_p)
        if self.epsilon:
            yield lambda logs: logs.exp() >= self.epsilon
        if self.eta:
            yield self._above_eta

    def _above_eta(self, logs: Tensor) -> Tensor:
        entropy = torch.special.entr(logs.exp()).sum(1, keepdim=True)
        keep: Tensor = logs.exp() >= (math.sqrt(self.eta) * (-entropy).exp()).clamp(max=self.eta)
        return keep

    def _width(self) -> int:
        """How many tokens the first cut keeps at most, or is likely to."""
        if self.top_k:
            return self.top_k + _TIES
        if self.top_p < 1 or self.min_p:
            return _SHORT
        return int(1 / self.epsilon) + 2 if self.epsilon else 1 << 62  # eta asks for all of them


def _cut(scores: Tensor, total: Tensor, width: int, cuts: list[Cut]) -> Candidates | None:
    """The best `width` tokens after all cuts; None if the first one would keep more."""
    values, tokens = scores.topk(width)
    logs = values - total[:, None]
    for cut in cuts:
        keep = (cut(logs) | (logs == logs[:, :1])) & (logs > -math.inf)
        if cut is cuts[0] and width < scores.shape[1] and bool(keep[:, -1].any()):
            return None
        logs = logs.masked_fill(~keep, -math.inf)
        logs = logs - logs.logsumexp(1, keepdim=True)
    return Candidates(logs, tokens)
